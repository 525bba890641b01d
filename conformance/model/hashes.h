// The stored hashes of tensors, and whether they are correct.
//
// Thread-safety: pure functions, but for the notes of the reading.
#pragma once

#include <string>
#include <vector>

#include "model/reading.h"

namespace tzmark::conformance::model {

// 64 hexadecimal digits.
std::string sha256_of(Bytes data);

// The hashes of the list that have the size of their type, in its order.
struct StoredHash {
  std::size_t number;  // in the list
  std::uint64_t type;
  const Value* value;
};
std::vector<StoredHash> stored_hashes(const ParsedStructure& header);

// Step 12 of FORMAT.md 11.1 for one tensor.
// REQUIRES: the tensor has a whole header.
void check_hashes(Reading& reading, std::size_t tensor, Bytes plaintext);

}  // namespace tzmark::conformance::model
