// The buffers of a pipeline's pieces: of one size, and each for one whole piece or for several parts of the smaller
// size that pieces have where each thread hashes many of them side by side.
//
// Buffers are numbers until a piece needs its memory. Pinning takes milliseconds, so pinned memory is taken when a
// buffer is first used: the first pieces are copied while others are still pinned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "io/pinned_pool.h"
#include "tzmark/first_touch.h"
#include "tzmark/memory.h"

namespace tzmark {

// The size of buffers for pieces of at most piece_bytes, and parts of at most part_bytes: each of both has room for
// the whole pages that its bytes begin and end in.
struct BufferSizes {
  BufferSizes(std::size_t piece_bytes, std::size_t part_bytes);

  std::size_t buffer_bytes;
  std::size_t part_bytes;  // of the memory of a part
  unsigned parts;          // of a buffer; 1: a part takes a whole one
};

// The most that a buffer for pieces of that size has, whatever the size of parts.
std::size_t buffer_bytes_max(std::size_t piece_bytes);

class PieceBuffers {
 public:
  // Pinned for this GPU, from the pinned pool.
  struct Pinning {
    int device = 0;
    bool holds_secrets = false;  // wipes the memory before others get it
  };
  // The memory of one piece, or of none.
  struct Share {
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};
    std::uint32_t buffer = kNone;
    std::uint32_t part = kNone;  // kNone: the whole buffer
  };

  PieceBuffers(const BufferSizes& sizes, std::size_t count, HostMemory::Pages pages, std::optional<Pinning> pinning);

  // The caller has the lock of the pipeline in these three.
  // Whether the next piece finds a buffer, be it a part or not.
  bool has_room() const { return !free_.empty(); }
  // REQUIRES: has_room().
  Share take(bool is_part);
  void give_back(Share share);

  // Returns the memory of a share, which may be written. Without the lock of the pipeline. Throws what the pinned pool
  // does.
  std::span<std::byte> memory_of(Share share);

 private:
  struct Buffer {
    std::uint64_t free_parts = 0;  // a bit for each part
    std::mutex pinning;
    PinnedMemory pinned;
  };

  std::span<std::byte> bytes_of(std::uint32_t buffer);
  std::uint64_t all_parts() const { return ~std::uint64_t{0} >> (64 - sizes_.parts); }

  const BufferSizes sizes_;
  const std::optional<Pinning> pinning_;
  const HostMemory memory_;  // of all buffers, unless it is pinned
  FirstTouch first_touch_;
  const std::unique_ptr<Buffer[]> buffers_;
  // Numbers of buffers; the one given back last is at the end: it may still be in a cache.
  std::vector<std::uint32_t> free_;     // without a piece
  std::vector<std::uint32_t> divided_;  // with some parts taken and others free
};

}  // namespace tzmark
