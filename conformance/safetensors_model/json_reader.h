// Reads JSON (RFC 8259) with the place of every value, as a careful reader of a safetensors header does.
//
// Thread-safety: a reader is for one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tzmark::conformance::safetensors {

// Thrown where the text is no JSON. offset: in the text.
struct NotJson {
  std::size_t offset = 0;
  std::string what;
};

// The text is UTF-8 already. Every function reads on from at(), and throws NotJson.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  std::size_t at() const { return at_; }
  bool is_at_end() const { return at_ == text_.size(); }
  // Skips the four characters of white space.
  void skip_space();
  // The first character of the value that comes next, after white space.
  char next();

  // The text without its escapes.
  std::string string();
  // As it is written.
  std::string_view number();
  // key: called for each member, before its colon. key_at: the offset of its first quote. value: called at its value,
  // which it reads. Returns the offset of the closing brace.
  using Key = std::function<void(std::string key, std::size_t key_at)>;
  std::size_t object(const Key& key, const std::function<void()>& value);
  // Called at each item, which it reads. Returns the offset of the closing bracket.
  std::size_t array(const std::function<void(std::size_t number)>& item);
  // Reads any value. repeated: called with the place of each key that its object has already; may be empty.
  void any_value(const std::function<void(std::size_t key_at)>& repeated = {});

 private:
  [[noreturn]] void fail(const std::string& what) const { throw NotJson{at_, what}; }
  char take(std::string_view allowed, const char* wanted);
  std::uint32_t hex_digits();
  void enter(std::size_t opened_at);

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
};

}  // namespace tzmark::conformance::safetensors
