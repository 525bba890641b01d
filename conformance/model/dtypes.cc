// The texts that name element types; see dtypes.h.
#include "model/dtypes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <vector>

#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

struct Plain {
  std::string_view code;
  std::uint64_t item_bytes;
  std::string_view torch;
};

constexpr std::array<Plain, 14> kPlain = {{{"b1", 1, "bool"},
                                           {"i1", 1, "int8"},
                                           {"i2", 2, "int16"},
                                           {"i4", 4, "int32"},
                                           {"i8", 8, "int64"},
                                           {"u1", 1, "uint8"},
                                           {"u2", 2, "uint16"},
                                           {"u4", 4, "uint32"},
                                           {"u8", 8, "uint64"},
                                           {"f2", 2, "float16"},
                                           {"f4", 4, "float32"},
                                           {"f8", 8, "float64"},
                                           {"c8", 8, "complex64"},
                                           {"c16", 16, "complex128"}}};

constexpr std::array<Plain, 3> kOpaque = {
    {{"", 2, "torch.bfloat16"}, {"", 4, "torch.complex32"}, {"", 1, "torch.bits8"}}};

constexpr std::array<std::string_view, 13> kUnits = {"Y",  "M",  "W",  "D",  "h",  "m", "s",
                                                     "ms", "us", "ns", "ps", "fs", "as"};

// numpy's element sizes and multipliers of dates are ints of 32 bits.
constexpr std::uint64_t kCountMax = (std::uint64_t{1} << 31) - 1;

constexpr std::size_t kValuesShown = 4;

bool has_mark(std::string_view text) { return !text.empty() && std::string_view("<>|").find(text[0]) != text.npos; }

// A decimal number from 1 up without a leading zero, and nothing else.
std::optional<std::uint64_t> count_of(std::string_view text) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || text[0] == '0') return std::nullopt;
  return count;
}

std::optional<Dtype> plain(std::string_view text) {
  const auto found =
      std::find_if(kPlain.begin(), kPlain.end(), [&](const Plain& p) { return p.code == text.substr(1); });
  if (found == kPlain.end() || (text[0] == '|' && found->item_bytes > 1)) return std::nullopt;
  return Dtype{found->item_bytes, std::string(found->torch)};
}

bool is_unit(std::string_view text) {
  if (text.empty()) return true;
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return false;
  text = text.substr(1, text.size() - 2);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits > 0 && count_of(text.substr(0, digits)).value_or(UINT64_MAX) > kCountMax) return false;
  return std::find(kUnits.begin(), kUnits.end(), text.substr(digits)) != kUnits.end();
}

std::optional<Dtype> foreign(std::string_view text) {
  const std::string_view code = text.substr(1);
  if (code.starts_with("M8") || code.starts_with("m8")) {
    return is_unit(code.substr(2)) ? std::optional(Dtype{8, std::nullopt}) : std::nullopt;
  }
  if (!code.starts_with("S") && !code.starts_with("U")) return std::nullopt;
  const std::optional<std::uint64_t> count = count_of(code.substr(1));
  const std::uint64_t character_bytes = code[0] == 'S' ? 1 : 4;
  if (!count || *count > kCountMax / character_bytes) return std::nullopt;
  return Dtype{character_bytes * *count, std::nullopt};
}

std::optional<std::uint64_t> opaque_item_bytes(std::string_view name) {
  const auto found = std::find_if(kOpaque.begin(), kOpaque.end(), [&](const Plain& p) { return p.torch == name; });
  if (found != kOpaque.end()) return found->item_bytes;
  constexpr std::string_view float8 = "torch.float8_";
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  const bool is_float8 = name.starts_with(float8) && name.size() > float8.size() &&
                         std::all_of(name.begin() + float8.size(), name.end(), in_word);
  return is_float8 ? std::optional<std::uint64_t>(1) : std::nullopt;
}

Dtype opaque(std::string_view text) {
  const std::size_t nul = std::min(text.find('\0'), text.size());
  const std::string_view head = text.substr(0, nul);
  const std::string_view name = text.substr(std::min(text.rfind('\0'), text.size() - 1) + 1);
  Dtype dtype;
  dtype.opaque = true;
  dtype.item_bytes = (head.size() > 2 ? count_of(head.substr(2)) : std::nullopt).value_or(0);
  dtype.torch = name.substr(name.starts_with("torch.") ? 6 : 0);
  const bool head_is_right =
      head.size() > 2 && head[1] == 'V' && dtype.item_bytes > 0 && (head[0] == '<' || head[0] == '|');
  const auto broken = [&](std::string_view rule, Clause clause) {
    dtype.broken_rule = rule;
    dtype.clause = clause;
    return dtype;
  };
  if (!head_is_right) return broken("TZR-DTY-002", Clause::kOpaqueHead);
  if (std::count(text.begin(), text.end(), '\0') != 1) return broken("TZR-DTY-002", Clause::kOpaqueName);
  const std::optional<std::uint64_t> item_bytes = opaque_item_bytes(name);
  if (!item_bytes) return broken("TZR-DTY-003", Clause::kUnknownName);
  if (*item_bytes != dtype.item_bytes) {
    dtype.right_item_bytes = *item_bytes;
    return broken("TZR-DTY-004", Clause::kElementSize);
  }
  if (head[0] == '|' && *item_bytes > 1) return broken("TZR-DTY-001", Clause::kNoByteOrder);
  return dtype;
}

template <typename T>
std::string values_of(Bytes data, bool big_endian) {
  std::string text;
  for (std::size_t i = 0; i < kValuesShown && (i + 1) * sizeof(T) <= data.size(); ++i) {
    std::array<std::byte, sizeof(T)> bytes;
    std::copy_n(data.begin() + i * sizeof(T), sizeof(T), bytes.begin());
    if (big_endian) std::reverse(bytes.begin(), bytes.end());
    text += fmt::format("{}{}", text.empty() ? "" : ", ", std::bit_cast<T>(bytes));
  }
  return text + (data.size() > kValuesShown * sizeof(T) ? ", ..." : "");
}

Dtype any(std::string_view text) {
  if (has_mark(text) && text.substr(1).starts_with("V")) return opaque(text);
  // A name behind a type that numpy has.
  if (text.find('\0') != text.npos) return opaque(text);
  if (has_mark(text)) {
    if (std::optional<Dtype> dtype = plain(text)) return *dtype;
    if (std::optional<Dtype> dtype = foreign(text)) return *dtype;
  }
  Dtype dtype;
  dtype.broken_rule = "TZR-DTY-001";
  dtype.clause = Clause::kNoType;
  return dtype;
}

}  // namespace

Dtype dtype_of(std::string_view text) {
  Dtype dtype = any(text);
  // One byte has no order that another mark could tell.
  const bool has_one_byte = dtype.broken_rule.empty() && dtype.item_bytes == 1;
  if (has_one_byte) dtype.writers_prefix = "|" + std::string(text.substr(1, 2));
  return dtype;
}

std::string data_summary(std::string_view dtype, Bytes data) {
  using Show = std::string (*)(Bytes, bool);
  static const std::vector<std::pair<std::string_view, Show>> shows = {
      {"i1", values_of<std::int8_t>},   {"i2", values_of<std::int16_t>},  {"i4", values_of<std::int32_t>},
      {"i8", values_of<std::int64_t>},  {"u1", values_of<std::uint8_t>},  {"u2", values_of<std::uint16_t>},
      {"u4", values_of<std::uint32_t>}, {"u8", values_of<std::uint64_t>}, {"f4", values_of<float>},
      {"f8", values_of<double>}};
  const std::string_view code = dtype.substr(dtype.empty() ? 0 : 1);
  for (const auto& [of, show] : shows) {
    if (code == of) return show(data, dtype[0] == '>');
  }
  return fmt::format("{} bytes", data.size());
}

}  // namespace tzmark::conformance::model
