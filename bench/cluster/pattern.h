// What the ranks read or write: patterns, and the parts of files that they give a rank.
//
// A role is a place in the pattern, 0 to ranks - 1. Which rank has which role changes from run to run, so that a host
// that is slow is told from a part that is. Thread-safe; functions throw only std::bad_alloc and kUsage.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tzmark::bench {

enum class Pattern : std::uint8_t {
  kSame,       // each reads the whole file in the same order
  kRotated,    // each reads the whole file, and begins elsewhere
  kBroadcast,  // one reads the file and sends it to all
  kGather,     // each reads an equal share and sends it to all
  kSliced,     // each reads its slice of every tensor, as tensor parallelism does
  kSharded,    // each reads a file of its own, which another rank has written
  kSegments,   // all write one file, each its tensors
  kCheckpoint  // each writes its shard of a checkpoint, which then gets its name
};

std::span<const Pattern> all_patterns();
std::string_view name_of(Pattern pattern);
std::string_view summary_of(Pattern pattern);
std::optional<Pattern> pattern_from_name(std::string_view name);
bool is_write(Pattern pattern);
// Whether ranks send each other what they read. Then each waits for the slowest.
bool is_exchange(Pattern pattern);

// Consecutive bytes of a file, and where they go.
struct FilePart {
  std::uint64_t offset = 0, bytes = 0;
  std::uint64_t at = 0;  // in the memory of the rank
};

// The parts of one rank, in the order in which it reads them.
struct RankParts {
  std::vector<FilePart> parts;
  std::uint64_t bytes = 0;  // of all, and of the memory
};

// A tensor in the file.
struct StoredTensor {
  std::uint64_t offset = 0, bytes = 0;
  std::uint64_t rows = 0;  // the size of its first dimension; 0 if it has fewer than two
};

// Of a whole file, in blocks. The role says at which block a rank begins: role/roles through the file.
RankParts whole_file(std::uint64_t file_bytes, std::uint64_t block_bytes, unsigned role, unsigned roles);

// Of the slices of all tensors. The first dimension is divided among the roles; a tensor with fewer rows than there are
// roles is read whole by each, as tensor parallelism replicates norms and biases.
RankParts slices(std::span<const StoredTensor> tensors, std::uint64_t block_bytes, unsigned role, unsigned roles);

}  // namespace tzmark::bench
