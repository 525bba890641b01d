// Copies of tensors in host memory, which is allocated once, for a background write while training continues.
//
// A SnapshotPool is for one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tzmark/checkpoint.h"
#include "tzmark/gpudirect.h"
#include "tzmark/memory.h"
#include "tzmark/table.h"
#include "tzmark/writer.h"

namespace tzmark {

// Memory for one snapshot at a time. Memory that is too small is freed before more is allocated, so that peak use is
// that of the largest snapshot.
class SnapshotPool {
 public:
  // Returns the same memory if it is large enough. pinned: the GPU must be able to reach it. REQUIRES: memory returned
  // before is no longer used.
  std::span<std::byte> take(std::uint64_t bytes, bool pinned);
  std::uint64_t held_bytes() const { return memory_.bytes().size(); }

 private:
  HostMemory memory_;
  PinnedRange pinned_range_;  // of memory_, and so destroyed before it
  bool pinned_ = false;
};

namespace checkpoint {

// Tensors in the form that writers take.
struct TensorSet {
  TensorTable table;
  std::vector<ConstBuffer> data;  // of each

  bool empty() const { return data.empty(); }
  std::uint64_t bytes() const;
};

// Checks and converts tensors. Throws kUsage for a dtype that torch lacks, data of the wrong size, or a name that
// occurs twice.
TensorSet describe(TensorViews tensors);

// Returns the size of a snapshot, in which each tensor is aligned for the CPU.
std::uint64_t snapshot_bytes(const TensorSet& tensors);

// Copies the bytes of the sets, which then refer to the copies. REQUIRES: memory has the snapshot_bytes of all sets.
void copy_to_snapshot(std::span<TensorSet* const> sets, std::span<std::byte> memory, unsigned threads);

// Makes the pages of memory that has none yet.
void touch(std::span<std::byte> memory, unsigned threads);

}  // namespace checkpoint
}  // namespace tzmark
