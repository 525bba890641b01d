// The bytes around a place in the file, with their fields. See model.h.
#include <fmt/format.h>

#include <algorithm>

#include "model/model.h"
#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

// Places in a list of fields.
struct Window {
  std::size_t first;
  std::size_t holds;  // the byte, if any field does
  std::size_t last;   // after the last one
};

Window window_at(const std::vector<Field>& fields, std::uint64_t offset, std::size_t fields_around) {
  // The last field that begins at or before the byte holds it, unless fields overlap; then the nearest one does.
  const auto behind = std::upper_bound(fields.begin(), fields.end(), offset,
                                       [](std::uint64_t at, const Field& field) { return at < field.offset; });
  const std::size_t count = fields.size();
  const auto place = static_cast<std::size_t>(behind - fields.begin());
  const std::size_t holds = place - std::min<std::size_t>(place, 1);
  const std::size_t first = holds - std::min(holds, fields_around);
  const std::size_t last = fields_around < count - std::min(count, holds + 1) ? holds + 1 + fields_around : count;
  return {first, holds, last};
}

// The fields of the window, with rows of numbers taken apart.
std::vector<Field> single_fields(const std::vector<Field>& fields, const Window& window, Bytes file) {
  std::vector<Field> singles;
  for (std::size_t i = window.first; i < window.last; ++i) {
    const Field& field = fields[i];
    if (field.numbers == 0) singles.push_back(field);
    for (std::uint64_t k = 0; k < field.numbers; ++k) {
      const std::uint64_t size = field.size / field.numbers;
      const std::uint64_t offset = field.offset + k * size;
      singles.push_back({offset, size, field.structure, fmt::format("{}[{}]", field.name, k),
                         fmt::format("{}", little_endian(file.subspan(offset, size)))});
    }
  }
  return singles;
}

}  // namespace

std::vector<Annotated> annotate(const Description& description, Bytes file, std::uint64_t offset,
                                std::size_t fields_around) {
  const Window wide = window_at(description.fields, offset, fields_around);
  const std::vector<Field> fields = single_fields(description.fields, wide, file);
  const Window window = window_at(fields, offset, fields_around);
  std::vector<Annotated> rows;
  for (std::size_t i = window.first; i < window.last; ++i) {
    const Field& field = fields[i];
    rows.push_back({field.offset, hex_folded(file.subspan(field.offset, field.size)),
                    fmt::format("{}: {}", field.structure, field.name), field.value,
                    i == window.holds && offset >= field.offset && offset - field.offset < field.size});
  }
  return rows;
}

}  // namespace tzmark::conformance::model
