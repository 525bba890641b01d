// How transfers of any offset, length and memory become calls that direct I/O takes.
//
// Direct I/O moves whole units between aligned offsets and aligned memory. A transfer is cut into steps, one call each:
//   read    head | whole units | tail    the edges are read whole into bounce memory, and what was asked for is copied
//   write   head | whole units | tail    the edges go through the page cache, by a second descriptor of the same file
// Whole units move straight between the file and the caller's memory if that is aligned, else through bounce memory.
//
// Why both ways of writing show one content: nobody here reads a unit, changes it and writes it back. A unit that two
// neighbouring pieces share is an edge of both, so that all writers of it meet in the page cache, where the kernel
// orders them. A direct transfer of a range makes the kernel write back the dirty pages of that range first, and a
// direct write also drops them, so that nothing stale is read later. A unit is never smaller than a page of memory:
// a page that an edge makes dirty holds nothing that a direct write of somebody else moves at the same time.
//
// With an Alignment of 1 every transfer is one straight step, which is how files without direct I/O share this code.
// Functions are pure; BouncePool may be used from any threads.
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

struct Step {
  enum class Route : std::uint8_t {
    kStraight,  // from or to the caller's memory
    kBounced,   // through bounce memory
    kBuffered,  // from the caller's memory, through the page cache
  };

  Route route = Route::kStraight;
  std::uint64_t offset = 0;  // what the call moves
  std::size_t bytes = 0;
  std::size_t skip = 0;    // how much of that lies before what was asked for
  std::size_t useful = 0;  // how much of the transfer is done if the call moves all

  // How much of the transfer is done when the call has moved this much.
  std::size_t useful_of(std::size_t moved) const;
};

// The first step of what is left of a transfer. bounce_bytes: a multiple of the unit. REQUIRES: out is not empty.
Step read_step(const Alignment& alignment, std::uint64_t offset, ConstBuffer out, std::size_t bounce_bytes);
Step write_step(const Alignment& alignment, std::uint64_t offset, ConstBuffer in, std::size_t bounce_bytes);

// As near to the wish as whole units allow, and one at least.
std::size_t whole_units(const Alignment& alignment, std::size_t wish_bytes);

// Memory that direct I/O takes.
struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeMemory>;
AlignedMemory allocate_aligned(const Alignment& alignment, std::size_t bytes);

// Bounce memory for whoever calls: as many pieces as there were callers at one time, each used again and again.
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
  std::vector<AlignedMemory> pieces_;  // those that nobody uses now
  std::size_t made_ = 0;
};

}  // namespace tzmark
