// Readers that read one integer field of the format, in some layouts, as a number of another type: of fewer bytes, with
// a sign, or as a double.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tzmark::conformance::planted {

struct IntegerField {
  std::string structure;  // the kind of a StructureId
  std::string field;
  std::uint64_t size = 0;
  bool is_signed = false;

  // "index entry: name_length, u16"
  std::string name() const;
};

// Those of the model's tables, in their order, and the CRC32, which the tables have as bytes. Names are unique.
std::vector<IntegerField> integer_fields();

struct Width {
  std::string name;
  std::uint64_t (*take)(std::uint64_t number);  // what the reader takes the number for; below 0 it wraps
};

// The types as which a reader may misread such a field.
std::vector<Width> widths_of(const IntegerField& field);

}  // namespace tzmark::conformance::planted
