// The parts of a file; see parts.h.
#include "parts.h"

namespace tzmark::conformance::mutation {

std::string_view name_of(Part part) {
  constexpr std::array<std::string_view, kPartCount> kNames = {
      "file header", "layout section", "index", "tensor header", "hashes", "crypt block", "data", "whole file", "key"};
  return kNames[static_cast<std::size_t>(part)];
}

Part part_of(std::string_view structure, std::string_view name) {
  if (structure.starts_with("file header")) return Part::kFileHeader;
  if (structure.starts_with("layout section")) return Part::kLayoutSection;
  if (structure.starts_with("index")) return Part::kIndex;
  if (structure.starts_with("tensor header")) {
    if (name.starts_with("hash") || structure.find("hash") != structure.npos) return Part::kHashes;
    const bool crypt = name.starts_with("crypt") || name == "chunk_count" || structure.find("crypt") != structure.npos;
    return crypt ? Part::kCryptBlock : Part::kTensorHeader;
  }
  return name == "data" ? Part::kData : Part::kFile;
}

Part part_of(const model::Field& field) { return part_of(field.structure, field.name); }

}  // namespace tzmark::conformance::mutation
