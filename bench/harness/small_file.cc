// Reads and parses small text files; see small_file.h.
#include "harness/small_file.h"

#include <charconv>
#include <fstream>
#include <iterator>

namespace tzmark::bench {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return {};
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) return {};
  return text;
}

std::optional<std::string> read_value(const std::filesystem::path& path) {
  const auto text = read_text(path);
  if (!text) return {};
  return std::string(trimmed(*text));
}

std::optional<std::uint64_t> read_number(const std::filesystem::path& path) {
  const auto value = read_value(path);
  std::uint64_t number = 0;
  if (!value) return {};
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || end != value->data() + value->size()) return {};
  return number;
}

std::optional<std::string> labelled(std::string_view text, std::string_view label) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == label) {
      return std::string(trimmed(line.substr(colon + 1)));
    }
  }
  return {};
}

std::optional<std::string> chosen(std::string_view text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return {};
  return std::string(text.substr(begin + 1, end - begin - 1));
}

}  // namespace tzmark::bench
