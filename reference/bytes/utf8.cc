// UTF-8 validation, and text that is safe to print.
#include "bytes/utf8.h"

#include <fmt/format.h>

#include <cstdint>

namespace tzmark {

std::optional<std::size_t> find_invalid_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0; };
  const auto within = [](int value, int low, int high) { return value >= low && value <= high; };
  for (std::size_t i = 0; i < text.size();) {
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
  for (std::size_t i = 0; i < text.size();) {
    const auto bad = find_invalid_utf8(text.substr(i));
    const std::size_t good = bad.value_or(text.size() - i);
    for (const char c : text.substr(i, good)) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      } else {
        result += c;
      }
    }
    i += good;
    if (bad) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i++]));
  }
  return result;
}

}  // namespace tzmark
