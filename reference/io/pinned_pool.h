// Host memory that is pinned for the GPU, and kept for the next load: pinning costs more than the copy that needs it.
//
// On an H200, memory in huge pages that were touched first is pinned in 20 ms/GiB; cudaHostAlloc takes 374. A block
// that is given back stays pinned while the idle ones together have at most idle_bytes_max().
// Not for a process that was forked afterwards: blocks are not there.
// Thread-safe. Errors: TZE-AVL-001 without a usable GPU; TZE-ENV-006 if memory cannot be allocated or pinned.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <utility>

#include "tzmark/device_memory.h"
#include "tzmark/memory.h"

namespace tzmark {

// A block of the pool, which gets it back from the destructor. For one owner at a time. Move-only.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  // At least as many as were asked for; their content is undefined.
  std::span<std::byte> bytes() const { return block_.memory.bytes(); }

 private:
  friend class PinnedPool;
  struct Block {
    HostMemory memory;
    PinnedRange pinned;  // of the memory, and so destroyed before it
  };
  PinnedMemory(Block block, bool holds_secrets) : block_(std::move(block)), holds_secrets_(holds_secrets) {}

  Block block_;
  bool holds_secrets_ = false;
};

class PinnedPool {
 public:
  // Never destroyed.
  static PinnedPool& instance();

  // device: the GPU whose context pins the memory, which is good for all of them. holds_secrets: the block is wiped
  // before the pool keeps it or the system gets it back. REQUIRES: bytes > 0.
  PinnedMemory take(std::size_t bytes, int device, bool holds_secrets);
  // Pins memory ahead, in blocks of that size, until so many bytes are idle or idle_bytes_max() is reached.
  void fill(std::size_t idle_bytes, std::size_t block_bytes, int device);
  // Unpins what is idle.
  void clear();
  // Throws kUnavailable in a process that was forked afterwards.
  void require_own_process() const;

  std::size_t idle_bytes() const;
  static constexpr std::size_t idle_bytes_max() { return std::size_t{256} << 20; }

 private:
  friend class PinnedMemory;
  using Block = PinnedMemory::Block;
  PinnedPool();
  static Block make(std::size_t bytes, int device);
  void give_back(Block block) noexcept;

  const pid_t process_;
  mutable std::mutex mutex_;
  std::deque<Block> idle_;  // the one given back last is at the end: it may still be in a cache
  std::size_t idle_bytes_ = 0;
};

}  // namespace tzmark
