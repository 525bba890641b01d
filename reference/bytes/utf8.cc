// UTF-8 validation, and text that is safe to print.
#include "bytes/utf8.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

namespace tzmark {
namespace {

// How many bytes the character in front has if it must not be printed as it is, else 0.
std::size_t unprintable_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x20 || lead == 0x7f) return 1;
  // U+0080 to U+009F are control characters as well: terminals take U+009B for the start of an escape sequence.
  if (lead == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0) return 2;
  // U+2028 and U+2029 end lines for those who split text by Unicode's rules.
  if (text.starts_with("\xe2\x80\xa8") || text.starts_with("\xe2\x80\xa9")) return 3;
  return 0;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0; };
  const auto within = [](int value, int low, int high) { return value >= low && value <= high; };
  for (std::size_t i = 0; i < text.size();) {
    // Most text is ASCII, which is checked eight bytes at a time.
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
    // The second byte's range depends on the first; it is what excludes overlong forms, surrogates and too high values.
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
      const std::size_t hidden = unprintable_bytes(text.substr(i));
      if (hidden == 0) result += text[i++];
      for (std::size_t k = 0; k < hidden; ++k) escape(text[i++]);
    }
    if (i < text.size()) escape(text[i++]);
  }
  return result;
}

}  // namespace tzmark
