// See cluster/pattern.h.
#include "cluster/pattern.h"

#include <algorithm>
#include <array>

namespace tzmark::bench {
namespace {

struct NamedPattern {
  Pattern pattern;
  std::string_view name, summary;
};

constexpr std::array kPatterns = {
    NamedPattern{Pattern::kSame, "same", "each rank reads the whole file, all in the same order"},
    NamedPattern{Pattern::kRotated, "rotated", "each rank reads the whole file, and begins elsewhere"},
    NamedPattern{Pattern::kBroadcast, "broadcast", "one rank reads the file and sends it to all"},
    NamedPattern{Pattern::kGather, "gather", "each rank reads an equal share of the file and sends it to all"},
    NamedPattern{Pattern::kSliced, "sliced", "each rank reads its slice of every tensor"},
    NamedPattern{Pattern::kSharded, "sharded", "each rank reads a file of its own, which another one has written"},
    NamedPattern{Pattern::kSegments, "segments", "all ranks write one file, each its tensors"},
    NamedPattern{Pattern::kCheckpoint, "checkpoint", "each rank writes its shard of a checkpoint, which is committed"},
};

const NamedPattern& row_of(Pattern pattern) {
  return *std::ranges::find(kPatterns, pattern, [](const NamedPattern& row) { return row.pattern; });
}

void add_blocks(RankParts& all, std::uint64_t offset, std::uint64_t bytes, std::uint64_t block_bytes) {
  for (std::uint64_t done = 0; done < bytes; done += block_bytes) {
    const std::uint64_t part = std::min(block_bytes, bytes - done);
    all.parts.push_back({offset + done, part, all.bytes});
    all.bytes += part;
  }
}

}  // namespace

std::span<const Pattern> all_patterns() {
  static const auto patterns = [] {
    std::array<Pattern, kPatterns.size()> values{};
    std::ranges::transform(kPatterns, values.begin(), &NamedPattern::pattern);
    return values;
  }();
  return patterns;
}

std::string_view name_of(Pattern pattern) { return row_of(pattern).name; }
std::string_view summary_of(Pattern pattern) { return row_of(pattern).summary; }

std::optional<Pattern> pattern_from_name(std::string_view name) {
  const auto* const row = std::ranges::find(kPatterns, name, &NamedPattern::name);
  return row == kPatterns.end() ? std::nullopt : std::optional(row->pattern);
}

bool is_write(Pattern pattern) { return pattern == Pattern::kSegments || pattern == Pattern::kCheckpoint; }

bool is_exchange(Pattern pattern) { return pattern == Pattern::kBroadcast || pattern == Pattern::kGather; }

RankParts whole_file(std::uint64_t file_bytes, std::uint64_t block_bytes, unsigned role, unsigned roles) {
  RankParts all;
  add_blocks(all, 0, file_bytes, block_bytes);
  const std::size_t begin = all.parts.size() * role / roles;
  std::ranges::rotate(all.parts, all.parts.begin() + static_cast<std::ptrdiff_t>(begin));
  return all;
}

RankParts slices(std::span<const StoredTensor> tensors, std::uint64_t block_bytes, unsigned role, unsigned roles) {
  RankParts all;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.rows < roles) {
      add_blocks(all, tensor.offset, tensor.bytes, block_bytes);
      continue;
    }
    const std::uint64_t row_bytes = tensor.bytes / tensor.rows;
    const std::uint64_t begin = tensor.rows * role / roles;
    const std::uint64_t end = tensor.rows * (role + 1) / roles;
    add_blocks(all, tensor.offset + begin * row_bytes, (end - begin) * row_bytes, block_bytes);
  }
  return all;
}

}  // namespace tzmark::bench
