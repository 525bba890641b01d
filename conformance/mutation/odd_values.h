// Unusual values that reveal faults of readers: numbers, names, dtypes and shapes.
//
// Thread-safety: pure functions but for the random numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mutation/random.h"

namespace tzmark::conformance::mutation {

// Powers of two that numbers of common types end at.
inline constexpr std::uint64_t k32 = std::uint64_t{1} << 32;
inline constexpr std::uint64_t k53 = std::uint64_t{1} << 53;
inline constexpr std::uint64_t k63 = std::uint64_t{1} << 63;

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

// What is valid, and lies at a limit of the format or of a type that readers and writers keep it in.

// A text in UTF-8 that some programs change, escape or refuse.
std::string unusual_text(Random& random);
// The size of a name in bytes.
std::size_t unusual_name_bytes(Random& random);
// A position in a list.
std::uint64_t unusual_position(Random& random);
// A size of data in bytes, near a power of two; one in some dozens is above 128 KiB.
std::uint64_t unusual_length(Random& random);
// A dimension of at most `most`.
std::uint64_t unusual_dim(std::uint64_t most, Random& random);
std::uint16_t unusual_module_index(Random& random);
// A number of tensors; one in six is above 100, because such files take time.
std::size_t unusual_tensor_count(Random& random);

}  // namespace tzmark::conformance::mutation
