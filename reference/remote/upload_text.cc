// See remote/upload_text.h.
#include "remote/upload_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace tzmark {
namespace {

constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
    {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};

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
    const auto entity = std::ranges::find_if(kEntities, [&](const auto& one) { return rest.starts_with(one.first); });
    const bool is_entity = entity != kEntities.end();
    text += is_entity ? entity->second : rest.front();
    rest.remove_prefix(is_entity ? entity->first.size() : 1);
  }
  return text;
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
