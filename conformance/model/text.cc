// How values of fields look to a person, and UTF-8; see text.h.
#include "model/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tzmark::conformance::model {
namespace {

constexpr std::size_t kQuotedMaxBytes = 80;
constexpr std::size_t kHexMaxBytes = 16;
constexpr std::size_t kHexEndBytes = 4;

std::string hex_spaced(Bytes bytes) {
  std::string hex;
  for (const std::byte byte : bytes) {
    fmt::format_to(std::back_inserter(hex), "{}{:02x}", hex.empty() ? "" : " ", std::to_integer<unsigned>(byte));
  }
  return hex;
}

// How many bytes the character at the start of the text has; 0 if it is none.
std::size_t utf8_character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto continues = [&](std::size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && at(1) < 0xa0;
    const bool surrogate = first == 0xed && at(1) > 0x9f;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && at(1) < 0x90;
    const bool too_large = first == 0xf4 && at(1) > 0x8f;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::uint64_t little_endian(Bytes bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) number = number << 8 | std::to_integer<std::uint64_t>(bytes[i - 1]);
  return number;
}

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = utf8_character_bytes(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  std::string result = "'";
  while (!text.empty() && result.size() < kQuotedMaxBytes) {
    const std::size_t size = utf8_character_bytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (size == 0 || first < 0x20 || first == 0x7f) {
      result += fmt::format("\\x{:02x}", first);
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result + (text.empty() ? "'" : fmt::format("...' and {} bytes more", text.size()));
}

std::string hex_folded(Bytes bytes) {
  if (bytes.size() <= kHexMaxBytes) return hex_spaced(bytes);
  return fmt::format("{} ... {} ({} bytes)", hex_spaced(bytes.first(kHexEndBytes)),
                     hex_spaced(bytes.last(kHexEndBytes)), bytes.size());
}

std::string hex_digits(Bytes bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) fmt::format_to(std::back_inserter(hex), "{:02x}", std::to_integer<unsigned>(byte));
  return hex;
}

std::array<std::uint8_t, 32> key_of_hex(const std::string& digits) {
  std::array<std::uint8_t, 32> key;
  if (digits.size() != 2 * key.size() || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
    throw std::runtime_error("a key is 64 hexadecimal digits");
  }
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<std::uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  return key;
}

}  // namespace tzmark::conformance::model
