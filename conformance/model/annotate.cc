// The bytes around a place in the file, with their fields. See model.h.
#include <fmt/format.h>

#include <algorithm>

#include "model.h"
#include "text.h"

namespace tzmark::conformance::model {

std::vector<Annotated> annotate(const Description& description, Bytes file, std::uint64_t offset,
                                std::size_t fields_around) {
  const std::vector<Field>& fields = description.fields;
  // The last field that begins at or before the byte holds it, unless fields overlap; then the nearest one does.
  const auto behind = std::upper_bound(fields.begin(), fields.end(), offset,
                                       [](std::uint64_t at, const Field& field) { return at < field.offset; });
  const std::size_t count = fields.size();
  const auto place = static_cast<std::size_t>(behind - fields.begin());
  const std::size_t holds = place - std::min<std::size_t>(place, 1);
  const std::size_t first = holds - std::min(holds, fields_around);
  const std::size_t last = fields_around < count - std::min(count, holds + 1) ? holds + 1 + fields_around : count;
  std::vector<Annotated> rows;
  for (std::size_t i = first; i < last; ++i) {
    const Field& field = fields[i];
    rows.push_back({field.offset, hex_folded(file.subspan(field.offset, field.size)),
                    fmt::format("{}: {}", field.structure, field.name), field.value,
                    i == holds && offset >= field.offset && offset - field.offset < field.size});
  }
  return rows;
}

}  // namespace tzmark::conformance::model
