// Unusual values that reveal faults of readers: numbers, names, dtypes and shapes.
//
// Thread-safety: pure functions but for the random numbers.
#pragma once

#include <string>
#include <vector>

#include "mutation/random.h"

namespace tzmark::conformance::mutation {

// A number of so many bytes that is not `old`. `others` are numbers of the same file.
std::uint64_t odd_number(std::uint64_t old, std::size_t size_bytes, const std::vector<std::uint64_t>& others,
                         Random& random);

// `others` are the names of the same file.
std::string odd_name(const std::string& old, const std::vector<std::string>& others, Random& random);

std::string odd_dtype(const std::string& old, Random& random);

std::vector<std::uint64_t> odd_shape(const std::vector<std::uint64_t>& old, Random& random);

// Bytes of the same number with something changed.
std::string odd_bytes(std::string old, Random& random);
// The same of feature flags, half of the time one of the lowest.
std::string odd_flags(std::string old, Random& random);

}  // namespace tzmark::conformance::mutation
