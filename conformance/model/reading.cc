// One reading of a file in one layout; see reading.h.
#include "model/reading.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tzmark::conformance::model {

ParsedStructure Reading::parse(const Part& part, Notes& found) const {
  const Scope around{file, &settings};
  const auto walk_within = [&](const Scope& outer) {
    return walk(file, *part.structure, part.begin, part.end, &outer, {part.structure->name, part.tensor}, found);
  };
  if (!part.tensor || part.structure == &kIndexEntry) return walk_within(around);
  const ParsedStructure leads_here = entry(*part.tensor);
  return walk_within({file, &leads_here, &around});
}

ParsedStructure Reading::read(const Part& part, Notes& found) {
  parts.push_back(part);
  return parse(part, found);
}

ParsedStructure Reading::entry(std::size_t tensor) const {
  Notes known = notes.another();
  return parse({&kIndexEntry, places[tensor].entry_begin, index_end, tensor}, known);
}

void Reading::visit_fields(const FieldVisitor& visit) const {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return parts[i].begin; });
  std::map<std::pair<std::uint64_t, std::size_t>, Field> pending;  // by offset and part
  const auto visit_before = [&](std::uint64_t end) {
    while (!pending.empty() && pending.begin()->first.first < end) visit(pending.extract(pending.begin()).mapped());
  };
  for (const std::size_t i : order) {
    visit_before(parts[i].begin);
    std::vector<Field> fields;
    Notes found = notes.another(&fields);
    parse(parts[i], found);
    for (Field& field : fields) pending.emplace(std::pair(field.offset, i), std::move(field));
  }
  visit_before(file.size());
}

Reading read_as(Bytes file, const ParsedStructure& file_header, const Layout& layout, const Mistakes& mistakes) {
  const std::uint64_t version = file_header.find("data version")->number;
  const std::byte flags = file[file_header.find("feature flags")->offset];
  Reading reading(file, file_header, layout, mistakes);
  reading.encrypted = version == 3 || (version >= 4 && (flags & std::byte{1}) != std::byte{0});
  reading.settings.values = {{kFileSize, 0, 0, file.size()},
                             {kEncrypted, 0, 0, reading.encrypted ? 1u : 0u},
                             {kLongDims, 0, 0, layout.long_dims ? 1u : 0u}};
  if (!read_index(file_header.find("tensor count")->number, reading)) return reading;
  check_offsets(reading);
  reading.index_fits = !reading.notes.refused();
  read_headers(reading);
  return reading;
}

}  // namespace tzmark::conformance::model
