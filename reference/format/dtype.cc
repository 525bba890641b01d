// Parsing dtype strings.
#include "tzmark/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "tzmark/error.h"

namespace tzmark {
namespace {

struct PlainType {
  std::string_view code;
  std::string_view name;
  std::uint64_t item_bytes;
};

constexpr std::array kPlainTypes = {
    PlainType{"b1", "bool", 1},      PlainType{"i1", "int8", 1},         PlainType{"i2", "int16", 2},
    PlainType{"i4", "int32", 4},     PlainType{"i8", "int64", 8},        PlainType{"u1", "uint8", 1},
    PlainType{"u2", "uint16", 2},    PlainType{"u4", "uint32", 4},       PlainType{"u8", "uint64", 8},
    PlainType{"f2", "float16", 2},   PlainType{"f4", "float32", 4},      PlainType{"f8", "float64", 8},
    PlainType{"c8", "complex64", 8}, PlainType{"c16", "complex128", 16},
};

constexpr std::string_view kTorchPrefix = "torch.";
constexpr std::string_view kFloat8Prefix = "float8_";

// Returns the element size of a known opaque torch dtype. torch keeps adding 8-bit floats, so these are recognized by
// their prefix.
std::optional<std::uint64_t> opaque_item_bytes(std::string_view name) {
  if (name == "bits8") return 1;
  if (name == "bfloat16") return 2;
  if (name == "complex32") return 4;
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (name.starts_with(kFloat8Prefix) && name.size() > kFloat8Prefix.size() && std::ranges::all_of(name, is_word)) {
    return 1;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> parse_count(std::string_view digits) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.front() == '0') return std::nullopt;
  return value;
}

// Returns a count times the bytes of its unit, if numpy can store that: as an integer of 32 bits with a sign.
std::optional<std::uint64_t> parse_size(std::string_view digits, std::uint64_t unit_bytes) {
  constexpr std::uint64_t kSizeMax = 0x7FFFFFFF;
  const auto count = parse_count(digits);
  if (!count || *count > kSizeMax / unit_bytes) return std::nullopt;
  return *count * unit_bytes;
}

// Returns whether this is the rest of a date dtype: empty, or a unit such as "[ns]" or "[25s]".
bool is_date_suffix(std::string_view suffix) {
  if (suffix.empty()) return true;
  if (suffix.size() < 3 || suffix.front() != '[' || suffix.back() != ']') return false;
  suffix = suffix.substr(1, suffix.size() - 2);
  const std::size_t unit_at = suffix.find_first_not_of("0123456789");
  if (unit_at == std::string_view::npos || (unit_at > 0 && !parse_size(suffix.substr(0, unit_at), 1))) return false;
  constexpr std::array<std::string_view, 13> kUnits = {"Y",  "M",  "W",  "D",  "h",  "m", "s",
                                                       "ms", "us", "ns", "ps", "fs", "as"};
  return std::ranges::find(kUnits, suffix.substr(unit_at)) != kUnits.end();
}

std::optional<std::uint64_t> foreign_item_bytes(std::string_view code) {
  if (code.size() < 2) return std::nullopt;
  const std::string_view rest = code.substr(1);
  switch (code.front()) {
    case 'S':
      return parse_size(rest, 1);
    case 'U':
      return parse_size(rest, 4);
    case 'M':
    case 'm':
      if (rest.front() == '8' && is_date_suffix(rest.substr(1))) return 8;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Dtype parse_opaque(std::string_view wire, std::size_t separator, std::uint64_t file_offset) {
  const std::string_view storage = wire.substr(0, separator);
  const std::string_view name = wire.substr(separator + 1);
  const auto item_bytes = storage.size() > 2 && storage[1] == 'V' ? parse_count(storage.substr(2)) : std::nullopt;
  if (!item_bytes || (storage[0] != '<' && storage[0] != '|')) {
    throw Error(ErrorCode::kDtypeSeparator, fmt::format("'{}' before the NUL byte is not a void type", storage),
                file_offset);
  }
  if (name.find('\0') != std::string_view::npos) {
    throw Error(ErrorCode::kDtypeSeparator, "an opaque dtype with more than one NUL byte", file_offset);
  }
  const std::string_view torch_name = name.substr(std::min(name.size(), kTorchPrefix.size()));
  const auto expected = name.starts_with(kTorchPrefix) ? opaque_item_bytes(torch_name) : std::nullopt;
  if (!expected) {
    throw Error(ErrorCode::kDtypeOpaqueName, fmt::format("'{}' is not a known torch dtype", name), file_offset);
  }
  if (*expected != *item_bytes) {
    throw Error(ErrorCode::kDtypeOpaqueSize,
                fmt::format("{} has elements of {} bytes, not '{}'", name, *expected, storage), file_offset);
  }
  if (storage[0] == '|' && *item_bytes != 1) {
    throw Error(ErrorCode::kDtypeUnknown,
                fmt::format("'{}' for {}: elements of several bytes have a byte order", storage, name), file_offset);
  }
  return {std::string(wire), std::string(torch_name), *item_bytes, false, true};
}

}  // namespace

Dtype parse_dtype(std::string_view wire, std::uint64_t file_offset) {
  if (const std::size_t separator = wire.find('\0'); separator != std::string_view::npos) {
    return parse_opaque(wire, separator, file_offset);
  }
  const char order = wire.empty() ? '\0' : wire.front();
  if (order == '<' || order == '>' || order == '|') {
    const std::string_view code = wire.substr(1);
    const auto plain = std::ranges::find(kPlainTypes, code, &PlainType::code);
    if (plain != kPlainTypes.end() && (order != '|' || plain->item_bytes == 1)) {
      return {std::string(wire), std::string(plain->name), plain->item_bytes, order == '>' && plain->item_bytes > 1,
              false};
    }
    if (const auto item_bytes = foreign_item_bytes(code)) {
      return {std::string(wire), "", *item_bytes, order == '>', false};
    }
  }
  throw Error(ErrorCode::kDtypeUnknown, fmt::format("'{}' is not a dtype of the format", wire), file_offset);
}

Dtype dtype_from_name(std::string_view torch_name) {
  const auto plain = std::ranges::find(kPlainTypes, torch_name, &PlainType::name);
  if (plain != kPlainTypes.end()) {
    return parse_dtype(fmt::format("{}{}", plain->item_bytes == 1 ? '|' : '<', plain->code));
  }
  if (const auto item_bytes = opaque_item_bytes(torch_name)) {
    return parse_dtype(fmt::format("{}V{}{}torch.{}", *item_bytes == 1 ? '|' : '<', *item_bytes, '\0', torch_name));
  }
  throw Error(ErrorCode::kUsage, fmt::format("'{}' is not a dtype that files can contain", torch_name));
}

}  // namespace tzmark
