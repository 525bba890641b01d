// Buffers, their parts, and the memory behind them.
#include "codec/piece_buffers.h"

#include <algorithm>
#include <bit>

#include "bytes/requires.h"

namespace tzmark {
namespace {

constexpr std::size_t kPageBytes = 4096;

// The room for so many bytes that begin anywhere in a page.
std::size_t whole_pages(std::size_t bytes) { return (bytes + 2 * kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

std::size_t buffer_bytes_max(std::size_t piece_bytes) {
  // Four parts of a quarter of 2 MiB have eight pages more than the piece, and shall fit.
  constexpr std::size_t kShareForParts = 32;
  const std::size_t piece = whole_pages(piece_bytes);
  return piece + piece / kShareForParts;
}

BufferSizes::BufferSizes(std::size_t piece_bytes, std::size_t part_bytes_max) {
  constexpr std::size_t kPartsMax = 64;
  const std::size_t piece = whole_pages(piece_bytes);
  part_bytes = std::min(whole_pages(part_bytes_max), piece);
  parts = static_cast<unsigned>(std::min(buffer_bytes_max(piece_bytes) / part_bytes, kPartsMax));
  buffer_bytes = std::max(piece, parts * part_bytes);
}

PieceBuffers::PieceBuffers(const BufferSizes& sizes, std::size_t count, HostMemory::Pages pages,
                           std::optional<Pinning> pinning)
    : sizes_(sizes),
      pinning_(pinning),
      memory_(pinning ? 0 : count * sizes.buffer_bytes, pages),
      first_touch_(pages == HostMemory::Pages::kHuge ? memory_.bytes() : std::span<std::byte>()),
      buffers_(std::make_unique<Buffer[]>(count)) {
  free_.reserve(count);
  divided_.reserve(count);
  for (std::size_t i = count; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
  for (std::size_t i = 0; i < count; ++i) buffers_[i].free_parts = all_parts();
}

PieceBuffers::Share PieceBuffers::take(bool is_part) {
  TZMARK_REQUIRES(has_room());
  Share share;
  const bool divides = is_part && sizes_.parts > 1;
  if (!divides || divided_.empty()) {
    share.buffer = free_.back();
    free_.pop_back();
    if (!divides) return share;
    divided_.push_back(share.buffer);
  }
  share.buffer = divided_.back();
  std::uint64_t& free_parts = buffers_[share.buffer].free_parts;
  share.part = static_cast<std::uint32_t>(std::countr_zero(free_parts));
  free_parts &= free_parts - 1;
  if (free_parts == 0) divided_.pop_back();
  return share;
}

void PieceBuffers::give_back(Share share) {
  if (share.buffer == Share::kNone) return;
  if (share.part != Share::kNone) {
    std::uint64_t& free_parts = buffers_[share.buffer].free_parts;
    if (free_parts == 0) divided_.push_back(share.buffer);
    free_parts |= std::uint64_t{1} << share.part;
    if (free_parts != all_parts()) return;
    divided_.erase(std::ranges::find(divided_, share.buffer));
  }
  free_.push_back(share.buffer);
}

std::span<std::byte> PieceBuffers::memory_of(Share share) {
  if (share.buffer == Share::kNone) return {};
  const std::span<std::byte> all = bytes_of(share.buffer);
  const std::span<std::byte> bytes =
      share.part == Share::kNone ? all : all.subspan(share.part * sizes_.part_bytes, sizes_.part_bytes);
  first_touch_.touch(bytes);
  return bytes;
}

std::span<std::byte> PieceBuffers::bytes_of(std::uint32_t buffer) {
  if (!pinning_) return memory_.bytes().subspan(buffer * sizes_.buffer_bytes, sizes_.buffer_bytes);
  Buffer& pinned = buffers_[buffer];
  // Two parts of it may be used for the first time at once.
  const std::lock_guard lock(pinned.pinning);
  if (pinned.pinned.bytes().empty()) {
    pinned.pinned = PinnedPool::instance().take(sizes_.buffer_bytes, pinning_->device, pinning_->holds_secrets);
  }
  return pinned.pinned.bytes().first(sizes_.buffer_bytes);
}

}  // namespace tzmark
