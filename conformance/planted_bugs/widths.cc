// The integer fields of the format, and the types as which they are misread; see widths.h.
#include "planted_bugs/widths.h"

#include <fmt/format.h>

#include <optional>
#include <set>

#include "model/tables.h"

namespace tzmark::conformance::planted {
namespace {

using model::Type;

// A cast to a narrower type, extended to 64 bits by its sign.
template <typename Number>
std::uint64_t as(std::uint64_t number) {
  return static_cast<std::uint64_t>(static_cast<Number>(number));
}

std::uint64_t as_double(std::uint64_t number) {
  const auto rounded = static_cast<double>(number);
  constexpr double kTooLarge = 18446744073709551616.0;  // 2^64
  return rounded >= kTooLarge ? UINT64_MAX : static_cast<std::uint64_t>(rounded);
}

// A reader that compares a signed number with the largest right one alone, and takes what is below 0 for 0.
std::uint64_t as_i8_below_0(std::uint64_t number) { return number >= 0x80 ? 0 : number; }

std::optional<IntegerField> field_of(const std::string& structure, const model::FieldRow& row) {
  IntegerField field{structure, std::string(row.name)};
  switch (row.type) {
    case Type::kU8:
      field.size = 1;
      break;
    case Type::kU16:
      field.size = 2;
      break;
    case Type::kU32:
    case Type::kI32:
      field.size = 4;
      break;
    case Type::kU64:
    case Type::kI64:
      field.size = 8;
      break;
    case Type::kBytes:
    case Type::kStructure:
      return std::nullopt;
  }
  field.is_signed = row.type == Type::kI32 || row.type == Type::kI64;
  return field;
}

void add_fields(const std::string& around, const model::Structure& structure, std::vector<IntegerField>& fields) {
  std::string label = around;
  if (!structure.name.empty()) label += fmt::format("{}{}", label.empty() ? "" : ", ", structure.name);
  for (const model::FieldRow& row : structure.rows) {
    if (row.structure) {
      add_fields(label, *row.structure, fields);
    } else if (const auto field = field_of(label, row)) {
      fields.push_back(*field);
    }
  }
}

}  // namespace

std::string IntegerField::name() const {
  return fmt::format("{}: {}, {}{}", structure, field, is_signed ? 'i' : 'u', 8 * size);
}

std::vector<IntegerField> integer_fields() {
  std::vector<IntegerField> fields;
  for (const model::Structure* structure : {&model::kFileHeader, &model::kLayoutSection, &model::kIndexLength,
                                            &model::kIndexEntry, &model::kTensorHeader, &model::kTerminator}) {
    add_fields("", *structure, fields);
  }
  fields.push_back({"tensor header", std::string(model::kCrc32Field), 4});
  return fields;
}

std::vector<Width> widths_of(const IntegerField& field) {
  std::vector<Width> widths = {{"i8", as<std::int8_t>}};
  if (field.size == 1) {
    widths.push_back({"i8, and what is below 0 as 0", as_i8_below_0});
    return widths;
  }
  widths.push_back({"u8", as<std::uint8_t>});
  widths.push_back({"i16", as<std::int16_t>});
  if (field.size == 2) return widths;
  widths.push_back({"u16", as<std::uint16_t>});
  if (!field.is_signed || field.size > 4) widths.push_back({"i32", as<std::int32_t>});
  if (field.size == 4) return widths;
  widths.push_back({"u32", as<std::uint32_t>});
  widths.push_back({"double", as_double});
  return widths;
}

}  // namespace tzmark::conformance::planted
