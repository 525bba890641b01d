// The threads that read headers ahead.
#include "codec/header_prefetch.h"

#include <utility>

#include "bytes/threads.h"
#include "codec/header_reading.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// A header read waits for the transfers in flight, of 512 KiB each by default and 16 at most. In that time the device
// reads as much as four of the smallest tensors with a header read of their own. Eight threads were no faster.
constexpr std::size_t kThreads = 4;
// A header of a remote file takes a round trip.
constexpr std::size_t kRemoteThreads = 16;
// Bound the memory for headers, which may be large if they have MACs, and the search for large tensors.
constexpr std::size_t kHeadersMax = 32;
constexpr std::size_t kHeaderBytesMax = 4 << 20;
constexpr std::size_t kDistanceMax = 1024;

}  // namespace

HeaderPrefetch::HeaderPrefetch(const ReaderState& state, std::size_t end, std::function<bool(std::size_t)> is_large)
    : state_(state), end_(end), is_large_(std::move(is_large)) {}

HeaderPrefetch::~HeaderPrefetch() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

std::vector<std::byte> HeaderPrefetch::take(std::size_t i) {
  std::unique_lock lock(mutex_);
  taken_ = i + 1;
  changed_.notify_all();
  const auto found = headers_.find(i);
  Header header;
  if (found == headers_.end()) {
    next_ = std::max(next_, i + 1);
    const bool is_remote = state_.file->is_remote();
    if (!started_ && next_ < end_ && (is_remote || state_.file->transfer_align_bytes() > 1)) {
      started_ = true;
      threads_ = start_threads(is_remote ? kRemoteThreads : kThreads, [this](std::size_t) { read_ahead(); });
    }
    lock.unlock();
    header = read(i);
  } else {
    changed_.wait(lock, [&] { return found->second.is_read; });
    header = std::move(found->second);
    headers_.erase(found);
    header_bytes_ -= header.room;
  }
  if (header.error) std::rethrow_exception(header.error);
  return std::move(header.bytes);
}

void HeaderPrefetch::read_ahead() {
  try {
    read_until_stopped();
  } catch (...) {
    // There was no memory for a claim. The header will be read in its turn.
  }
}

void HeaderPrefetch::read_until_stopped() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock,
                  [this] { return stopped_ || (headers_.size() < kHeadersMax && header_bytes_ < kHeaderBytesMax); });
    if (stopped_) return;
    const std::size_t i = claim();
    if (i == end_) {
      if (next_ == end_) return;
      changed_.wait(lock);
      continue;
    }
    Header& header = headers_[i];
    header.room = room_of(i);
    header_bytes_ += header.room;
    lock.unlock();
    Header read_one = read(i);
    lock.lock();
    header_bytes_ = header_bytes_ - header.room + read_one.room;
    header = std::move(read_one);
    header.is_read = true;
    changed_.notify_all();
  }
}

std::size_t HeaderPrefetch::claim() {
  while (next_ < end_ && next_ < taken_ + kDistanceMax) {
    const std::size_t i = next_++;
    try {
      if (is_large_(i)) return i;
    } catch (const Error&) {
      // Its turn will end the job.
    }
  }
  return end_;
}

std::size_t HeaderPrefetch::room_of(std::size_t i) const {
  try {
    return header_room(state_.index, state_.index.in_file_order(i));
  } catch (...) {
    return 0;  // reading it throws the same
  }
}

HeaderPrefetch::Header HeaderPrefetch::read(std::size_t i) const {
  Header header;
  try {
    header.bytes = read_header(*state_.file, state_.index, state_.index.in_file_order(i));
    header.room = header.bytes.size();
  } catch (...) {
    header.error = std::current_exception();
  }
  return header;
}

}  // namespace tzmark
