// The pool of pinned memory.
#include "io/pinned_pool.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "bytes/requires.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::size_t kPageBytes = 4096;

// Whether a block serves a request without wasting more than it needs.
bool serves(std::size_t block_bytes, std::size_t bytes) { return block_bytes >= bytes && block_bytes / 2 <= bytes; }

}  // namespace

PinnedMemory::~PinnedMemory() {
  // In a forked child the memory is not there.
  if (bytes().empty() || PinnedPool::instance().process_ != ::getpid()) return;
  if (holds_secrets_) ::explicit_bzero(bytes().data(), bytes().size());
  PinnedPool::instance().give_back(std::move(block_));
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : block_(std::move(other.block_)), holds_secrets_(std::exchange(other.holds_secrets_, false)) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(block_, other.block_);
  std::swap(holds_secrets_, other.holds_secrets_);
  return *this;
}

PinnedPool::PinnedPool() : process_(::getpid()) {}

PinnedPool& PinnedPool::instance() {
  // Never destroyed: the CUDA driver may be gone by then, and the system takes the memory back.
  static PinnedPool* const pool = new PinnedPool;
  return *pool;
}

PinnedPool::Block PinnedPool::make(std::size_t bytes, int device) {
  Block block;
  block.memory = HostMemory(bytes);
  const std::span<std::byte> all = block.memory.bytes();
  // Pages that are there already are pinned several times as fast. Descending, as FirstTouch does.
  for (std::size_t left = all.size(); left > 0; left -= std::min(left, kPageBytes)) {
    *const_cast<volatile std::byte*>(&all[left - 1]) = std::byte{};
  }
  // A child gets neither decrypted bytes nor, by a write to a page that both share, the page that the GPU reads.
  ::madvise(all.data(), all.size(), MADV_DONTFORK);
  block.pinned = PinnedRange(all, device);
  return block;
}

PinnedMemory PinnedPool::take(std::size_t bytes, int device, bool holds_secrets) {
  TZMARK_REQUIRES(bytes > 0);
  require_own_process();
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(idle_.rbegin(), idle_.rend(),
                                    [&](const Block& idle) { return serves(idle.memory.bytes().size(), bytes); });
    if (found != idle_.rend()) {
      Block block = std::move(*found);
      idle_bytes_ -= block.memory.bytes().size();
      idle_.erase(std::next(found).base());
      return {std::move(block), holds_secrets};
    }
  }
  return {make(bytes, device), holds_secrets};
}

void PinnedPool::require_own_process() const {
  if (process_ == ::getpid()) return;
  throw Error(ErrorCode::kUnavailable, "this process was forked after the GPU was used, which it cannot use then");
}

void PinnedPool::fill(std::size_t idle_bytes, std::size_t block_bytes, int device) {
  TZMARK_REQUIRES(block_bytes > 0);
  require_own_process();
  const std::size_t wanted = std::min(idle_bytes, idle_bytes_max());
  while (this->idle_bytes() + block_bytes <= wanted) give_back(make(block_bytes, device));
}

void PinnedPool::clear() {
  // Unpinned and freed without the lock, so that no other thread waits for it.
  std::deque<Block> unused;
  const std::lock_guard lock(mutex_);
  unused.swap(idle_);
  idle_bytes_ = 0;
}

std::size_t PinnedPool::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

void PinnedPool::give_back(Block block) noexcept {
  std::vector<Block> surplus;  // freed without the lock
  const std::size_t bytes = block.memory.bytes().size();
  if (bytes > idle_bytes_max()) return;
  try {
    const std::lock_guard lock(mutex_);
    while (idle_bytes_ + bytes > idle_bytes_max()) {
      surplus.push_back(std::move(idle_.front()));
      idle_bytes_ -= surplus.back().memory.bytes().size();
      idle_.pop_front();
    }
    idle_.push_back(std::move(block));
    idle_bytes_ += bytes;
  } catch (const std::bad_alloc&) {
    // What is not in the pool any more is freed.
  }
}

}  // namespace tzmark
