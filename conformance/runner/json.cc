// The JSON of an adapter; see json.h.
#include "json.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>
#include <vector>

#include "errors.h"

namespace tzmark::conformance {

Json parse_untrusted_json(std::string_view text) {
  std::vector<std::size_t> member_counts;
  const auto check = [&member_counts](int depth, Json::parse_event_t event, Json&) {
    switch (event) {
      case Json::parse_event_t::object_start:
        member_counts.push_back(0);
        [[fallthrough]];
      case Json::parse_event_t::array_start:
        if (depth >= kJsonDepthMax) throw std::runtime_error("JSON nested too deep");
        break;
      case Json::parse_event_t::object_end:
        member_counts.pop_back();
        break;
      case Json::parse_event_t::key:
        if (++member_counts.back() > kJsonMembersMax) throw std::runtime_error("JSON object with too many members");
        break;
      default:
        break;
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& error) {
    throw std::runtime_error(error.what());
  }
}

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw EnvironmentError(fmt::format("{}: cannot be opened", path.string()));
  try {
    return Json::parse(file);
  } catch (const Json::exception& error) {
    throw EnvironmentError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

std::string compact_dump(const Json& document, std::size_t max_bytes) {
  return one_line(document.dump(-1, ' ', false, Json::error_handler_t::replace), max_bytes);
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
