// Copies of tensors in host memory that is made once: what a background write writes while training goes on.
//
// A SnapshotPool and a Snapshot are for one thread at a time. A Snapshot shows memory of its pool, which holds one.
#pragma once

#include <cstdint>
#include <vector>

#include "tzmark/checkpoint.h"
#include "tzmark/device_memory.h"
#include "tzmark/memory.h"
#include "tzmark/table.h"
#include "tzmark/writer.h"

namespace tzmark {

// Memory for one snapshot at a time. Peak use is that of the largest: what is too small goes before more is made.
class SnapshotPool {
 public:
  // The memory is what it was, if it is large enough, and has no special content. pinned: it has to be in reach of the
  // GPU. REQUIRES: nobody uses what was handed out before.
  std::span<std::byte> take(std::uint64_t bytes, bool pinned);
  std::uint64_t held_bytes() const { return memory_.bytes().size(); }

 private:
  HostMemory memory_;
  PinnedRange pinned_range_;  // of the memory, and so let go of before it
  bool pinned_ = false;
};

namespace checkpoint {

// Tensors as a writer wants them.
struct TensorSet {
  TensorTable table;
  std::vector<ConstBuffer> data;  // of each

  bool empty() const { return data.empty(); }
  std::uint64_t bytes() const;
};

// The tensors of a caller, which are checked here: throws kUsage for a dtype that torch lacks, data of the wrong size,
// a name that comes twice.
TensorSet describe(TensorViews tensors);

// Where its tensors lie in a snapshot that they are copied to. Aligned for whatever a CPU does with them.
std::uint64_t snapshot_bytes(const TensorSet& tensors);

// Copies the bytes of the sets, which then show the copies. REQUIRES: memory has the snapshot_bytes of all of them.
void copy_to_snapshot(std::span<TensorSet* const> sets, std::span<std::byte> memory, unsigned threads);

// Makes the pages of memory that has none yet.
void touch(std::span<std::byte> memory, unsigned threads);

}  // namespace checkpoint
}  // namespace tzmark
