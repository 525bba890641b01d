// The parts of a file for which strictness is scored.
//
// Thread-safety: pure functions and values.
#pragma once

#include <string>
#include <string_view>

#include "model/model.h"

namespace tzmark::conformance::mutation {

enum class FilePart {
  kFileHeader,
  kLayoutSection,
  kIndex,
  kTensorHeader,
  kHashes,
  kCryptBlock,
  kData,
  kFile,  // as a whole: its end, its gaps, the terminator, and structures that are missing, double or in another order
  kSecret,         // its key or passphrase
  kSpecification,  // what encode is asked to write
  // Of safetensors files.
  kHeaderLength,
  kHeader,  // its JSON, wherever it may stand
  kMetadata,
  kTensorEntry,
};
inline constexpr std::size_t kFilePartCount = 14;

// The name in reports, such as "tensor header".
std::string_view name_of(FilePart part);

FilePart part_of(const model::Field& field);

// The same by the two names of a field: "tensor header 0, hash 1" and "hash type".
FilePart part_of(std::string_view structure, std::string_view name);

// A label without its numbers, so that the fields of all tensors, hashes and chunks have the same.
std::string without_digits(std::string label);

}  // namespace tzmark::conformance::mutation
