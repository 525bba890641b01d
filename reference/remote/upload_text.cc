// See remote/upload_text.h.
#include "remote/upload_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

namespace tzmark {
namespace {

constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
    {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};

// Returns what "&amp;", "&#38;" or "&#x26;" stands for, if it is printable ASCII.
std::optional<char> character_of(std::string_view entity) {
  const auto named = std::ranges::find(kEntities, entity, &std::pair<std::string_view, char>::first);
  if (named != kEntities.end()) return named->second;
  if (!entity.starts_with("&#") || !entity.ends_with(';')) return std::nullopt;
  std::string_view digits = entity.substr(2, entity.size() - 3);
  const bool is_hex = digits.starts_with('x');
  if (is_hex) digits.remove_prefix(1);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hex ? 16 : 10);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  if (!is_whole || value < 0x20 || value > 0x7E) return std::nullopt;
  return static_cast<char>(value);
}

}  // namespace

std::string hex_text(const Sha256Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::string xml_text(std::string_view xml, std::string_view element) {
  constexpr std::size_t kTextBytesMax = 4 << 10;
  const std::string opening = fmt::format("<{}>", element);
  const std::size_t begin = xml.find(opening);
  if (begin == xml.npos) return {};
  std::string_view rest = xml.substr(begin + opening.size());
  const std::size_t end = rest.find('<');
  if (end == rest.npos || end > kTextBytesMax || !rest.substr(end).starts_with(fmt::format("</{}>", element)))
    return {};
  rest = rest.substr(0, end);
  if (std::ranges::any_of(rest, [](char c) { return static_cast<unsigned char>(c) < 0x20; })) return {};
  std::string text;
  while (!rest.empty()) {
    if (rest.front() != '&') {
      text += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    const std::string_view entity = rest.substr(0, rest.find(';') + 1);
    const auto character = character_of(entity);
    if (!character) return {};
    text += *character;
    rest.remove_prefix(entity.size());
  }
  return text;
}

bool tells_completion(std::string_view xml) {
  return xml.find("<CompleteMultipartUploadResult") != xml.npos && xml.find("<Error") == xml.npos;
}

std::string completion_text(std::span<const std::string> etags) {
  std::string text = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < etags.size(); ++i) {
    text += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>", i + 1);
    for (const char c : etags[i]) {
      const auto entity = std::ranges::find(kEntities, c, &std::pair<std::string_view, char>::second);
      entity != kEntities.end() ? text += entity->first : text += c;
    }
    text += "</ETag></Part>";
  }
  return text + "</CompleteMultipartUpload>";
}

}  // namespace tzmark
