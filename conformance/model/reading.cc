// One reading of a file in one layout; see reading.h.
#include "model/reading.h"

#include <fmt/format.h>

#include "model/text.h"

namespace tzmark::conformance::model {

std::string Reading::label(std::string_view structure, std::size_t tensor) const {
  return fmt::format("{} {}", structure, tensor);
}

Reading read_as(Bytes file, const ParsedStructure& file_header, const Layout& layout,
                const std::set<std::string>& without) {
  const std::uint64_t version = file_header.find("data version")->number;
  const std::byte flags = file[file_header.find("feature flags")->offset];
  const bool encrypted = version == 3 || (version >= 4 && (flags & std::byte{1}) != std::byte{0});
  Reading reading(layout, encrypted, without);
  ParsedStructure values;
  values.values = {{kFileSize, 0, 0, file.size()},
                   {kEncrypted, 0, 0, encrypted ? 1u : 0u},
                   {kLongDims, 0, 0, layout.long_dims ? 1u : 0u}};
  const Scope settings{file, &values};
  if (!read_index(file, settings, file_header.find("tensor count")->number, reading)) return reading;
  check_offsets(file, reading);
  reading.index_fits = !reading.notes.refused();
  read_headers(file, settings, reading);
  return reading;
}

}  // namespace tzmark::conformance::model
