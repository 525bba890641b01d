// Dividing transfers into steps, and bounce buffers.
#include "io/aligned_io.h"

#include <algorithm>

#include "bytes/requires.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// The kernel transfers less than 2 GiB per call, and the length of an io_uring entry has 32 bits.
constexpr std::size_t kCallBytesMax = std::size_t{1} << 30;
// From this size on, an additional direct transfer costs less than copying.
constexpr std::size_t kWorthACallBytes = 128 << 10;
constexpr std::size_t kBounceBytes = 1 << 20;

bool is_aligned(const std::byte* memory, const Alignment& alignment) {
  return reinterpret_cast<std::uintptr_t>(memory) % alignment.memory_bytes == 0;
}

std::size_t round_down(std::size_t bytes, std::size_t unit_bytes) { return bytes - bytes % unit_bytes; }

}  // namespace

std::size_t AlignedStep::useful_of(std::size_t moved) const {
  return moved <= skip ? 0 : std::min(moved - skip, useful);
}

AlignedStep read_step(const Alignment& alignment, std::uint64_t offset, ConstBuffer out, std::size_t bounce_bytes) {
  TZMARK_REQUIRES(out.size > 0 && bounce_bytes % alignment.unit_bytes == 0);
  const std::size_t unit = alignment.unit_bytes;
  const std::size_t skip = offset % unit;
  const std::size_t head = skip == 0 ? 0 : unit - skip;
  const bool rest_is_straight = out.size >= head + unit && is_aligned(out.data + head, alignment);
  if (rest_is_straight && head == 0) {
    const std::size_t bytes = round_down(std::min(out.size, kCallBytesMax), unit);
    return {AlignedStep::Route::kStraight, offset, bytes, 0, bytes};
  }
  const bool head_only = rest_is_straight && out.size - head >= kWorthACallBytes;
  const std::size_t wanted = std::min(head_only ? head : out.size, bounce_bytes - skip);
  const std::size_t units = (skip + wanted + unit - 1) / unit;
  return {AlignedStep::Route::kBounced, offset - skip, units * unit, skip, wanted};
}

AlignedStep read_step_with_room(const Alignment& alignment, std::uint64_t offset, ConstBuffer out,
                                std::size_t spare_bytes, std::size_t bounce_bytes) {
  const std::size_t unit = alignment.unit_bytes;
  const std::size_t missing = (unit - out.size % unit) % unit;
  const bool is_straight = offset % unit == 0 && is_aligned(out.data, alignment);
  if (!is_straight || missing > spare_bytes || out.size > kCallBytesMax - missing) {
    return read_step(alignment, offset, out, bounce_bytes);
  }
  return {AlignedStep::Route::kStraight, offset, out.size + missing, 0, out.size};
}

AlignedStep write_step(const Alignment& alignment, std::uint64_t offset, ConstBuffer in, std::size_t bounce_bytes) {
  TZMARK_REQUIRES(in.size > 0 && bounce_bytes % alignment.unit_bytes == 0);
  const std::size_t unit = alignment.unit_bytes;
  const std::size_t skip = offset % unit;
  if (skip != 0 || in.size < unit) {
    const std::size_t bytes = std::min(in.size, unit - skip);
    return {AlignedStep::Route::kBuffered, offset, bytes, 0, bytes};
  }
  const bool straight = is_aligned(in.data, alignment);
  const std::size_t bytes = round_down(std::min(in.size, straight ? kCallBytesMax : bounce_bytes), unit);
  return {straight ? AlignedStep::Route::kStraight : AlignedStep::Route::kBounced, offset, bytes, 0, bytes};
}

std::size_t whole_units(const Alignment& alignment, std::size_t wish_bytes) {
  return std::max(round_down(wish_bytes, alignment.unit_bytes), alignment.unit_bytes);
}

AlignedMemory allocate_aligned(const Alignment& alignment, std::size_t bytes) {
  const std::size_t align = std::max({alignment.unit_bytes, alignment.memory_bytes, sizeof(void*)});
  void* memory = nullptr;
  if (::posix_memalign(&memory, align, bytes) != 0) {
    throw Error(ErrorCode::kResource, "no memory for a bounce buffer");
  }
  return AlignedMemory(static_cast<std::byte*>(memory));
}

BouncePool::BouncePool(const Alignment& alignment)
    : alignment_(alignment), piece_bytes_(whole_units(alignment, kBounceBytes)) {}

AlignedMemory BouncePool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!pieces_.empty()) {
      AlignedMemory piece = std::move(pieces_.back());
      pieces_.pop_back();
      return piece;
    }
    // Giving back must not allocate: there is room for every piece that was ever taken.
    pieces_.reserve(++made_);
  }
  return allocate_aligned(alignment_, piece_bytes_);
}

void BouncePool::give_back(AlignedMemory piece) noexcept {
  const std::lock_guard lock(mutex_);
  pieces_.push_back(std::move(piece));
}

}  // namespace tzmark
