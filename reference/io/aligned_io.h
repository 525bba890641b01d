// Divides transfers of any offset, length and address into calls that direct I/O supports.
//
// Direct I/O transfers whole units between aligned offsets and aligned memory. A transfer is divided into steps of one
// call each:
//   read    head | whole units | tail    the edges are read as whole units into a bounce buffer, and copied from there
//   write   head | whole units | tail    the edges use the page cache, through a second descriptor of the same file
// Whole units are transferred directly if the caller's memory is aligned, otherwise through a bounce buffer.
//
// Direct and buffered writes are consistent because no unit is read, modified and written back. A unit that two
// adjacent pieces share is an edge of both, so all writes to it use the page cache, where the kernel orders them.
// Before a direct transfer the kernel writes back the dirty pages of its range, and a direct write also drops them, so
// that no stale page is read later. A unit is never smaller than a page: a page that an edge makes dirty contains
// nothing that a concurrent direct write transfers.
//
// With an Alignment of 1 every transfer is one direct step; files without direct I/O share the code that way.
// Thread-safety: all functions are pure; BouncePool is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "tzmark/buffer.h"

namespace tzmark {

struct Alignment {
  std::size_t unit_bytes = 1;    // of offsets and lengths
  std::size_t memory_bytes = 1;  // of addresses
};

struct AlignedStep {
  enum class Route : std::uint8_t {
    kStraight,  // directly from or to the caller's memory
    kBounced,   // through a bounce buffer
    kBuffered,  // from the caller's memory, through the page cache
  };

  Route route = Route::kStraight;
  std::uint64_t offset = 0;  // the range of the call
  std::size_t bytes = 0;
  std::size_t skip = 0;    // bytes of the range before the requested ones
  std::size_t useful = 0;  // requested bytes in the range

  // The number of requested bytes among the first `moved` bytes of the range.
  std::size_t useful_of(std::size_t moved) const;
};

// Returns the first step of the rest of a transfer. REQUIRES: out is not empty; bounce_bytes is a multiple of the unit.
AlignedStep read_step(const Alignment& alignment, std::uint64_t offset, ConstBuffer out, std::size_t bounce_bytes);
// The same for a read that may overwrite so many bytes after its memory.
AlignedStep read_step_with_room(const Alignment& alignment, std::uint64_t offset, ConstBuffer out,
                                std::size_t spare_bytes, std::size_t bounce_bytes);
AlignedStep write_step(const Alignment& alignment, std::uint64_t offset, ConstBuffer in, std::size_t bounce_bytes);

// Rounds down to whole units, but to at least one.
std::size_t whole_units(const Alignment& alignment, std::size_t wish_bytes);

// Memory with the alignment of direct I/O.
struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeMemory>;
AlignedMemory allocate_aligned(const Alignment& alignment, std::size_t bytes);

// A pool of bounce buffers: as many as were ever in use at the same time.
class BouncePool {
 public:
  explicit BouncePool(const Alignment& alignment);

  std::size_t piece_bytes() const { return piece_bytes_; }
  AlignedMemory take();
  void give_back(AlignedMemory piece) noexcept;

 private:
  const Alignment alignment_;
  const std::size_t piece_bytes_;
  std::mutex mutex_;
  std::vector<AlignedMemory> pieces_;  // not in use
  std::size_t made_ = 0;
};

}  // namespace tzmark
