// The JSON of an adapter; see json.h.
#include "runner/json.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "model/text.h"
#include "runner/errors.h"
#include "runner/file_content.h"

namespace tzmark::conformance {

namespace {

// Counts what a text would make, and makes nothing. The library's own callbacks would take a time that is quadratic in
// the length of an array, because it searches the array for discarded values after each of its elements.
class LimitCheck : public Json::json_sax_t {
 public:
  bool null() override { return count_value(); }
  bool boolean(bool) override { return count_value(); }
  bool number_integer(number_integer_t) override { return count_value(); }
  bool number_unsigned(number_unsigned_t) override { return count_value(); }
  bool number_float(number_float_t, const string_t&) override { return count_value(); }
  bool string(string_t&) override { return count_value(); }
  bool binary(binary_t&) override { return count_value(); }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(string_t&) override {
    if (++member_counts_.back() > kJsonMembersMax) throw std::runtime_error("JSON object with too many members");
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    throw std::runtime_error(problem_of(error));
  }

 private:
  bool count_value() {
    if (++values_ > kJsonValuesMax) throw std::runtime_error("JSON with too many values");
    return true;
  }

  bool enter() {
    if (member_counts_.size() >= static_cast<std::size_t>(kJsonDepthMax)) {
      throw std::runtime_error("JSON nested too deep");
    }
    member_counts_.push_back(0);
    return count_value();
  }

  bool leave() {
    member_counts_.pop_back();
    return true;
  }

  std::size_t values_ = 0;
  std::vector<std::size_t> member_counts_;  // of the objects and arrays that are open; arrays have none
};

// The library stops at a NUL byte, which would hide all that follows it.
void refuse_nul(std::string_view text) {
  if (const std::size_t at = text.find('\0'); at != text.npos) {
    throw std::runtime_error(fmt::format("byte 00 at position {} of JSON text", at));
  }
}

// file names the text in errors.
Json parse_trusted(std::string_view text, const std::filesystem::path& file) {
  try {
    refuse_nul(text);
    return Json::parse(text);
  } catch (const std::runtime_error& error) {
    throw EnvironmentError(fmt::format("{}: {}", file.string(), error.what()));
  } catch (const Json::exception& error) {
    throw EnvironmentError(fmt::format("{}: {}", file.string(), problem_of(error)));
  }
}

}  // namespace

std::string problem_of(const std::exception& error) {
  constexpr std::string_view kBegin = "[json.exception.";
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return std::string(text.starts_with(kBegin) && end != text.npos ? text.substr(end + 2) : text);
}

Json parse_untrusted_json(std::string_view text) {
  refuse_nul(text);
  try {
    LimitCheck check;
    Json::sax_parse(text, &check);
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw std::runtime_error(problem_of(error));
  }
}

Json read_json(const std::filesystem::path& path) { return parse_trusted(model::text_of(read_named_file(path)), path); }

Json parse_json(std::string_view text, const std::filesystem::path& file) { return parse_trusted(text, file); }

std::string dump_line(const Json& document) { return document.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string dump_lines(const Json& document) {
  const std::string text = document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  // Only strings hold U+007F to U+009F, which a terminal would take for controls.
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool is_pair = byte == 0xc2 && next >= 0x80 && next <= 0x9f;
    if (is_pair || byte == 0x7f) {
      safe += fmt::format("\\u00{:02x}", is_pair ? next : byte);
      i += is_pair ? 1 : 0;
    } else {
      safe += text[i];
    }
  }
  return safe;
}

std::string compact_dump(const Json& document, std::size_t max_bytes) {
  return one_line(dump_line(document), max_bytes);
}

std::string one_line(std::string_view text, std::size_t max_bytes) {
  std::string line;
  unsigned char before = 0;
  for (const char c : text.substr(0, max_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < ' ' || byte == 0x7f ? ' ' : c;
    // U+0080 to U+009F are controls as well, to terminals too: C2 80 to C2 9F.
    if (before == 0xc2 && byte >= 0x80 && byte <= 0x9f) line.replace(line.size() - 2, 2, "  ");
    before = byte;
  }
  if (text.size() <= max_bytes) return line;
  // Do not cut through a character: continuation bytes of UTF-8 are 10xxxxxx.
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  line.resize(end);
  return line + "...";
}

}  // namespace tzmark::conformance
