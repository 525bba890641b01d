// Parses JSON text of a file token by token, without building a tree.
//
// Adds the position of each token to nlohmann's parser, and tightens three defaults: it limits the depth, refuses a
// byte order mark, and does not end the text at a NUL byte. For one thread at a time.
#pragma once

#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tzmark/error.h"

namespace tzmark::safetensors {

// JSON's white space.
inline bool is_white_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The maximal nesting depth: that of the reference library's parser.
inline constexpr unsigned kJsonDepthMax = 127;

// The type of a token. kOther: true, false, and numbers other than integers from 0 to 2^64 - 1.
enum class JsonType : std::uint8_t {
  kNull,
  kUnsigned,
  kString,
  kOther,
  kBeginObject,
  kKey,
  kEndObject,
  kBeginArray,
  kEndArray,
};

struct JsonToken {
  JsonType type;
  std::string_view text = {};  // of a string or a key; valid during the call
  std::uint64_t number = 0;    // if unsigned
  std::size_t at = 0;          // position in the text
};

// Calls handler with each JsonToken; an exception of the handler ends the walk.
template <typename Handler>
class JsonEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  // code: of syntax errors. file_offset: of the text in the file.
  JsonEvents(std::string_view text, std::uint64_t file_offset, ErrorCode code, Handler& handler)
      : text_(text), file_offset_(file_offset), code_(code), handler_(handler) {}

  // Parses one value, which begins at position begin and must not begin with a byte order mark. Returns its end, and
  // ignores what follows.
  std::size_t walk(std::size_t begin) {
    cursor_ = token_end_ = begin;
    const TextIterator first{text_.data(), begin, &cursor_};
    const TextIterator last{text_.data(), text_.size(), &cursor_};
    nlohmann::json::sax_parse(first, last, this, nlohmann::json::input_format_t::json, false);
    return cursor_;
  }

  bool null() override { return emit({.type = JsonType::kNull}); }
  bool boolean(bool) override { return emit({.type = JsonType::kOther}); }
  bool number_integer(number_integer_t) override { return emit({.type = JsonType::kOther}); }
  bool number_unsigned(number_unsigned_t value) override {
    return emit({.type = JsonType::kUnsigned, .number = value});
  }
  bool number_float(number_float_t, const string_t&) override { return emit({.type = JsonType::kOther}); }
  bool string(string_t& value) override { return emit({.type = JsonType::kString, .text = value}); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override { return descend(JsonType::kBeginObject); }
  bool key(string_t& value) override { return emit({.type = JsonType::kKey, .text = value}); }
  bool end_object() override { return ascend(JsonType::kEndObject); }
  bool start_array(std::size_t) override { return descend(JsonType::kBeginArray); }
  bool end_array() override { return ascend(JsonType::kEndArray); }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at ...: syntax error while ..."; the offset replaces the place.
    const std::string_view what = error.what();
    const std::size_t colon = what.find(": ");
    const std::size_t bracket = what.find("] ");
    const std::size_t begin = colon != what.npos ? colon + 2 : bracket != what.npos ? bracket + 2 : 0;
    throw Error(code_, std::string(what.substr(begin)), file_offset_ + (cursor_ > 0 ? cursor_ - 1 : 0));
  }

 private:
  // Feeds the parser, and records how far it has read.
  struct TextIterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    const char* text;
    std::size_t at;
    std::size_t* cursor;

    const char& operator*() const { return text[at]; }
    TextIterator& operator++() {
      *cursor = ++at;
      return *this;
    }
    TextIterator operator++(int) {
      TextIterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const TextIterator& a, const TextIterator& b) { return a.at == b.at; }
    friend bool operator!=(const TextIterator& a, const TextIterator& b) { return a.at != b.at; }
  };

  bool descend(JsonType type) {
    if (++depth_ > kJsonDepthMax) {
      throw Error(code_, "arrays and objects are nested deeper than 127", file_offset_ + cursor_ - 1);
    }
    return emit({.type = type});
  }

  bool ascend(JsonType type) {
    --depth_;
    return emit({.type = type});
  }

  bool emit(JsonToken token) {
    // Only separators lie between the previous token and this one. The parser may have read one delimiter past the end
    // of a number; a closing bracket is always the last byte that it has read.
    token.at = token_end_;
    while (token.at < cursor_ &&
           (is_white_space(text_[token.at]) || text_[token.at] == ',' || text_[token.at] == ':')) {
      ++token.at;
    }
    if (token.type == JsonType::kEndObject || token.type == JsonType::kEndArray) token.at = cursor_ - 1;
    token_end_ = cursor_;
    handler_(token);
    return true;
  }

  const std::string_view text_;
  const std::uint64_t file_offset_;
  const ErrorCode code_;
  Handler& handler_;
  std::size_t cursor_ = 0;     // after the last byte that the parser has read
  std::size_t token_end_ = 0;  // the cursor after the previous token
  unsigned depth_ = 0;
};

}  // namespace tzmark::safetensors
