// UTF-8 validation, and text that is safe to print.
#include "bytes/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

namespace tzmark {
namespace {

struct CodePoints {
  std::uint32_t first, last;
};

// The categories Cc, Cf, Zl and Zp of Unicode 15, and every Default_Ignorable_Code_Point: characters that are
// invisible, end lines, begin escape sequences, or reverse the text around them.
constexpr std::array<CodePoints, 27> kHidden = {{
    {0x0000, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x0600, 0x0605},
    {0x061c, 0x061c},   {0x06dd, 0x06dd},   {0x070f, 0x070f},   {0x0890, 0x0891},   {0x08e2, 0x08e2},
    {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
    {0xfff0, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
}};

bool is_hidden(std::uint32_t code_point) {
  const auto after =
      std::ranges::upper_bound(kHidden, code_point, {}, [](const CodePoints& points) { return points.first; });
  return after != kHidden.begin() && code_point <= std::prev(after)->last;
}

// Returns the first character, and its number of bytes. REQUIRES: the text begins with well-formed UTF-8.
std::pair<std::uint32_t, std::size_t> decode_front(std::string_view text) {
  const auto lead = static_cast<std::uint8_t>(text[0]);
  const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  std::uint32_t code_point = bytes == 1 ? lead : lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) code_point = code_point << 6 | (static_cast<std::uint8_t>(text[i]) & 0x3fU);
  return {code_point, bytes};
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0; };
  const auto within = [](int value, int low, int high) { return value >= low && value <= high; };
  for (std::size_t i = 0; i < text.size();) {
    // Skips ASCII, which most text is, eight bytes at a time.
    constexpr std::uint64_t kHighBits = 0x8080808080808080;
    for (std::uint64_t block = 0; i + sizeof block <= text.size(); i += sizeof block) {
      std::memcpy(&block, text.data() + i, sizeof block);
      if ((block & kHighBits) != 0) break;
    }
    if (i == text.size()) break;
    const int lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // The range of the second byte depends on the first, which excludes overlong forms, surrogates and too high values.
    const int low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const int high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    std::size_t length = 0;
    if (within(lead, 0xc2, 0xdf)) length = 2;
    if (within(lead, 0xe0, 0xef)) length = 3;
    if (within(lead, 0xf0, 0xf4)) length = 4;
    if (length == 0 || !within(byte(i + 1), low, high)) return i;
    for (std::size_t k = 2; k < length; ++k) {
      if (!within(byte(i + k), 0x80, 0xbf)) return i;
    }
    i += length;
  }
  return std::nullopt;
}

std::string printable(std::string_view text) {
  std::string result;
  const auto escape = [&](char c) { result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c)); };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t good_end = i + find_invalid_utf8(text.substr(i)).value_or(text.size() - i);
    while (i < good_end) {
      const auto [code_point, bytes] = decode_front(text.substr(i));
      const std::string_view character = text.substr(i, bytes);
      i += bytes;
      if (is_hidden(code_point)) {
        std::ranges::for_each(character, escape);
      } else {
        result += character;
      }
    }
    if (i < text.size()) escape(text[i++]);
  }
  return result;
}

}  // namespace tzmark
