// The parts of a file; see file_parts.h.
#include "mutation/file_parts.h"

namespace tzmark::conformance::mutation {

std::string_view name_of(FilePart part) {
  constexpr std::array<std::string_view, kFilePartCount> kNames = {
      "file header",   "layout section", "index",      "tensor header", "hashes",
      "crypt block",   "data",           "whole file", "key",           "specification",
      "header length", "header",         "metadata",   "tensor entry"};
  return kNames[static_cast<std::size_t>(part)];
}

FilePart part_of(std::string_view structure, std::string_view name) {
  if (structure.starts_with("file header")) return FilePart::kFileHeader;
  if (structure.starts_with("layout section")) return FilePart::kLayoutSection;
  if (structure.starts_with("index")) return FilePart::kIndex;
  if (structure.starts_with("tensor header")) {
    if (name.starts_with("hash") || structure.find("hash") != structure.npos) return FilePart::kHashes;
    const bool crypt = name.starts_with("crypt") || name == "chunk_count" || structure.find("crypt") != structure.npos;
    return crypt ? FilePart::kCryptBlock : FilePart::kTensorHeader;
  }
  return name == "data" ? FilePart::kData : FilePart::kFile;
}

std::string without_digits(std::string label) {
  std::erase_if(label, [](char byte) { return byte >= '0' && byte <= '9'; });
  return label;
}

FilePart part_of(const model::Field& field) { return part_of(field.structure, field.name); }

}  // namespace tzmark::conformance::mutation
