// See codec/group_exchange.h.
#include "codec/group_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bytes/requires.h"
#include "bytes/threads.h"
#include "codec/rank_report.h"
#include "io/wait_check.h"

namespace tzmark {
namespace {

constexpr std::size_t kRingAlignBytes = 4096;
// What follows a chunk in its place: the report, or the rest of the page in which the chunk ends.
constexpr std::size_t kAfterChunkBytes = kRingAlignBytes;
static_assert(kReportBytes <= kAfterChunkBytes);

constexpr std::size_t kTransferBytes = 2 << 20;  // where the path has no default, as of Reader
constexpr unsigned kBlockingThreadsMax = 4;      // where the path has no depth: copies from the page cache
constexpr unsigned kRemoteThreadsMax = 4;        // each of which decrypts TLS

// How long readers copy nothing before one that waits drops a chunk that another one may still want. Steps of the
// pipeline take about a millisecond.
constexpr std::chrono::milliseconds kPatience{20};
constexpr std::chrono::milliseconds kBetweenChecks{250};  // see set_wait_check

// Removes what lies between from and to.
void subtract(std::vector<FileRange>& ranges, std::uint64_t from, std::uint64_t to) {
  auto first = std::ranges::partition_point(ranges, [&](const FileRange& r) { return r.end <= from; });
  if (first == ranges.end() || first->begin >= to) return;
  if (first->begin < from) {
    const std::uint64_t end = std::exchange(first->end, from);
    if (end > to) {
      ranges.insert(first + 1, {to, end});
      return;
    }
    ++first;
  }
  const auto last = std::find_if(first, ranges.end(), [&](const FileRange& r) { return r.end > to; });
  if (last != ranges.end()) last->begin = std::max(last->begin, to);
  ranges.erase(first, last);
}

}  // namespace

struct GroupExchange::OwnRead {
  Transfer transfer;
  std::size_t chunk = 0;
  bool is_in_flight = false;
};

GroupExchange::GroupExchange(File& file, Group& group, const GroupReadOptions& options, std::vector<FileRange> ranges)
    : file_(file), group_(group), options_(options), ranges_(std::move(ranges)) {
  const std::uint64_t chunk_bytes = options_.chunk_bytes;
  for (const FileRange& range : ranges_) {
    for (std::uint64_t at = range.begin; at < range.end;) {
      const std::uint64_t end = std::min(range.end, (at / chunk_bytes + 1) * chunk_bytes);
      if (!chunks_.empty() && chunks_.back().begin / chunk_bytes == at / chunk_bytes) {
        chunks_.back().end = end;
      } else {
        chunks_.push_back({.begin = at, .end = end});
      }
      at = end;
    }
  }
  if (chunks_.empty()) {
    has_ended_ = true;
    return;
  }
  const std::size_t place_bytes = options_.chunk_bytes + kAfterChunkBytes;
  const std::size_t places =
      std::min(chunks_.size(), std::max<std::size_t>(2, options_.memory_bytes_max / place_bytes));
  memory_ = HostMemory(places * place_bytes);
  ring_.resize(places);
  for (std::size_t i = 0; i < places; ++i) {
    ring_[i].memory = memory_.bytes().subspan(i * place_bytes, place_bytes);
    free_.push_back(static_cast<std::uint32_t>(places - 1 - i));
  }
  for (std::size_t i = 0; i < chunks_.size(); ++i) own_left_ += is_own(i) ? 1 : 0;

  const std::size_t suited = options_.transfer_bytes != 0 ? options_.transfer_bytes : file_.transfer_bytes_default();
  transfer_bytes_ =
      std::max(kRingAlignBytes, (suited != 0 ? suited : kTransferBytes) / kRingAlignBytes * kRingAlignBytes);
  transfer_bytes_ = std::min(transfer_bytes_, options_.chunk_bytes);
  const std::uint64_t transfers = own_left_ * (options_.chunk_bytes / transfer_bytes_ + 1);
  unsigned depth = options_.queue_depth != 0 ? options_.queue_depth : file_.queue_depth_default();
  if (depth == 0) depth = std::min(core_count(), kBlockingThreadsMax);
  depth = static_cast<unsigned>(std::min<std::uint64_t>(depth, std::max<std::uint64_t>(transfers, 1)));
  unsigned threads = depth;
  if (file_.is_asynchronous()) threads = file_.is_remote() ? std::min({depth, core_count(), kRemoteThreadsMax}) : 1;
  queue_depth_ = (depth + threads - 1) / threads;

  try {
    start(threads);
  } catch (...) {
    cancel();
    throw;
  }
}

void GroupExchange::start(unsigned own_threads) {
  const std::lock_guard lock(mutex_);
  exchange_thread_ = start_threads(1, [this](std::size_t) { exchange(); });
  if (own_left_ > 0) reading_threads_ = start_threads(own_threads, [this](std::size_t) { read_ahead(); });
  own_threads_ = static_cast<unsigned>(reading_threads_.size());
  if (exchange_thread_.empty() || (own_left_ > 0 && own_threads_ == 0)) {
    throw Error(ErrorCode::kResource, "no thread could be started that exchanges chunks of the file");
  }
}

void GroupExchange::cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = !runs_;
  exchange_.notify_all();
  own_.notify_all();
}

GroupExchange::~GroupExchange() {
  cancel();
  finish();
}

void GroupExchange::run() {
  const std::lock_guard lock(mutex_);
  runs_ = true;
  last_copy_ = Clock::now();
  give_places();
  exchange_.notify_all();
  own_.notify_all();
}

void GroupExchange::finish() noexcept {
  {
    const std::lock_guard lock(mutex_);
    discards_ = true;
    for (std::size_t i = oldest_; i < next_exchanged_; ++i) {
      if (chunks_[i].state == ChunkState::kIn && place_of(i).copying == 0) drop(i);
    }
  }
  exchange_thread_.clear();
  reading_threads_.clear();
}

std::optional<Error> GroupExchange::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool GroupExchange::is_group_broken() const {
  const std::lock_guard lock(mutex_);
  return is_group_broken_;
}

void GroupExchange::add_to(GroupReadCounts& counts) const {
  const std::lock_guard lock(mutex_);
  counts.storage_bytes += counts_.storage_bytes;
  counts.sent_bytes += counts_.sent_bytes;
  counts.received_bytes += counts_.received_bytes;
  counts.chunks += counts_.chunks;
}

unsigned GroupExchange::owner_of(std::size_t chunk) const {
  return options_.how == GroupRead::kBroadcast ? 0 : static_cast<unsigned>(chunk % group_.size());
}

// The chunk and the report after it. Its address is congruent to its offset modulo the page size, so that a path that
// bypasses the page cache needs no bounce buffer.
std::span<std::byte> GroupExchange::memory_of(std::size_t chunk) {
  const Chunk& c = chunks_[chunk];
  return place_of(chunk).memory.subspan(static_cast<std::size_t>(c.begin % options_.chunk_bytes),
                                        static_cast<std::size_t>(c.end - c.begin) + kReportBytes);
}

// The lock is held, here and below.
void GroupExchange::give_places() {
  if (!runs_) return;
  for (; next_placed_ < chunks_.size() && !free_.empty(); ++next_placed_) {
    Chunk& chunk = chunks_[next_placed_];
    chunk.place = free_.back();
    chunk.state = ChunkState::kPlaced;
    free_.pop_back();
    Place& place = ring_[chunk.place];
    place.wanted.clear();
    auto range = std::ranges::partition_point(ranges_, [&](const FileRange& r) { return r.end <= chunk.begin; });
    for (; range != ranges_.end() && range->begin < chunk.end; ++range) {
      const FileRange part{std::max(range->begin, chunk.begin), std::min(range->end, chunk.end)};
      if (part.begin < part.end) place.wanted.push_back(part);
    }
    place.is_dealt = false;
    place.error.reset();
    if (is_own(next_placed_)) {
      own_chunks_.push_back(next_placed_);
      own_.notify_all();
    }
    if (next_placed_ == next_exchanged_) exchange_.notify_all();
  }
}

void GroupExchange::drop(std::size_t chunk) {
  chunks_[chunk].state = ChunkState::kDropped;
  free_.push_back(chunks_[chunk].place);
  while (oldest_ < next_exchanged_ && chunks_[oldest_].state == ChunkState::kDropped) ++oldest_;
  give_places();
}

void GroupExchange::drop_oldest() {
  for (std::size_t i = oldest_; i < next_exchanged_; ++i) {
    if (chunks_[i].state != ChunkState::kIn || place_of(i).copying > 0) continue;
    drop(i);
    return;
  }
}

GroupExchange::Taken GroupExchange::take(std::uint64_t offset, std::span<std::byte> out) {
  const auto after = std::ranges::partition_point(chunks_, [&](const Chunk& c) { return c.end <= offset; });
  if (after == chunks_.end()) return {.bytes_here = out.size()};
  if (after->begin > offset) {
    return {.bytes_here = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), after->begin - offset))};
  }
  const auto number = static_cast<std::size_t>(after - chunks_.begin());
  const Chunk& chunk = *after;
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), chunk.end - offset));
  Lock lock(mutex_);
  auto next_check = Clock::now() + kBetweenChecks;
  while (chunk.state != ChunkState::kIn) {
    if (chunk.state == ChunkState::kDropped) return {.bytes_here = bytes, .was_dropped = true};
    if (failure_) throw Error(*failure_);
    if (has_ended_ || !runs_) return {.bytes_here = bytes};
    const Clock::time_point now = Clock::now();
    const bool is_ring_full = next_exchanged_ < chunks_.size() && chunks_[next_exchanged_].state == ChunkState::kAhead;
    if (is_ring_full && now - last_copy_ >= kPatience) drop_oldest();
    if (now >= next_check) {
      lock.unlock();
      check_wait();
      next_check = now + kBetweenChecks;
      lock.lock();
      continue;
    }
    readers_.wait_for(lock, chunk.state == ChunkState::kAhead ? kPatience : kBetweenChecks);
  }
  Place& place = ring_[chunk.place];
  ++place.copying;
  lock.unlock();
  std::memcpy(out.data(), memory_of(number).data() + (offset - chunk.begin), bytes);
  lock.lock();
  --place.copying;
  last_copy_ = Clock::now();
  subtract(place.wanted, offset, offset + bytes);
  if (place.copying == 0 && (place.wanted.empty() || discards_)) drop(number);
  return {.copied = bytes};
}

void GroupExchange::exchange() {
  Lock lock(mutex_);
  exchange_.wait(lock, [this] { return runs_ || is_cancelled_; });
  if (!runs_) return;
  try {
    for (std::size_t i = 0; i < chunks_.size() && !has_ended_; ++i) exchange_chunk(i, lock);
    if (!has_ended_) end(std::nullopt);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    is_group_broken_ = true;
    end(as_error(std::current_exception()));
  }
}

void GroupExchange::exchange_chunk(std::size_t number, Lock& lock) {
  const bool own = is_own(number);
  exchange_.wait(lock, [&] {
    if (chunks_[number].state == ChunkState::kAhead) return false;
    const Place& place = place_of(number);
    return !own || (place.in_flight == 0 && (place.is_dealt || own_error_));
  });
  const std::span<std::byte> memory = memory_of(number);
  const std::span<std::byte> trailer = memory.last(kReportBytes);
  if (own) {
    const Place& place = place_of(number);
    RankReport report{.number = number, .file_bytes = file_.size()};
    if (place.error || !place.is_dealt) {
      report.error = of_rank(group_.rank(), place.error ? *place.error : *own_error_);
    }
    encode_report(report, trailer);
  }
  lock.unlock();
  broadcast_together(group_, memory, owner_of(number));
  const RankReport report = decode_report(trailer, number);
  lock.lock();
  ++counts_.chunks;
  (own ? counts_.sent_bytes : counts_.received_bytes) += memory.size();
  if (report.error) {
    end(report.error);
    return;
  }
  chunks_[number].state = ChunkState::kIn;
  ++next_exchanged_;
  if (discards_) drop(number);
  readers_.notify_all();
}

void GroupExchange::end(std::optional<Error> failure) {
  failure_ = std::move(failure);
  has_ended_ = true;
  readers_.notify_all();
  own_.notify_all();
}

void GroupExchange::read_ahead() {
  std::vector<OwnRead> reads;
  std::unique_ptr<TransferQueue> queue;
  Lock lock(mutex_, std::defer_lock);
  try {
    queue = file_.make_queue(queue_depth_);
    reads.resize(std::min(queue->depth(), queue_depth_));
    lock.lock();
    own_.wait(lock, [this] { return runs_ || is_cancelled_; });
    if (!runs_) return;
    read_own(*queue, reads, lock);
    --own_threads_;
  } catch (...) {
    const Error error = as_error(std::current_exception());
    // Ends the transfers in flight, which are lost.
    if (lock.owns_lock()) lock.unlock();
    queue.reset();
    lock.lock();
    for (OwnRead& read : reads) {
      if (!read.is_in_flight) continue;
      read.transfer.error = std::make_exception_ptr(error);
      settle(read);
    }
    if (--own_threads_ == 0) fail_own(error);
  }
}

void GroupExchange::read_own(TransferQueue& queue, std::span<OwnRead> reads, Lock& lock) {
  for (;;) {
    for (OwnRead& read : reads) {
      if (read.is_in_flight || !begin_read(read)) continue;
      lock.unlock();
      queue.start(read.transfer);
      lock.lock();
    }
    if (queue.in_flight() > 0) {
      lock.unlock();
      const Transfer& done = queue.wait();
      lock.lock();
      settle(*static_cast<OwnRead*>(done.owner));
    } else if (has_ended_ || own_error_ || own_left_ == 0) {
      return;
    } else {
      own_.wait(lock);
    }
  }
}

// Takes the next transfer; false if there is none at present.
bool GroupExchange::begin_read(OwnRead& read) {
  if (has_ended_ || own_error_ || own_chunks_.empty()) return false;
  const std::size_t number = own_chunks_.front();
  const Chunk& chunk = chunks_[number];
  Place& place = place_of(number);
  // Whole pages, for which there is room, so that a path that transfers them needs a single call.
  const bool takes_pages = file_.transfer_align_bytes() > 1;
  std::uint64_t first = chunk.begin, last = chunk.end;
  if (takes_pages) {
    first -= first % kRingAlignBytes;
    last = std::min(file_.size(), (last + kRingAlignBytes - 1) / kRingAlignBytes * kRingAlignBytes);
  }
  const std::uint64_t base = chunk.begin - chunk.begin % options_.chunk_bytes;
  const std::uint64_t begin = std::max(own_at_, first);
  const std::uint64_t end = std::min(last, begin - begin % transfer_bytes_ + transfer_bytes_);
  read.transfer.kind = Transfer::Kind::kRead;
  read.transfer.offset = begin;
  read.transfer.memory =
      place.memory.subspan(static_cast<std::size_t>(begin - base), static_cast<std::size_t>(end - begin));
  read.transfer.owner = &read;
  read.transfer.error = nullptr;
  read.transfer.spare_bytes = end == last ? place.memory.size() - static_cast<std::size_t>(end - base) : 0;
  read.chunk = number;
  read.is_in_flight = true;
  ++place.in_flight;
  own_at_ = end;
  if (end == last) {
    place.is_dealt = true;
    own_chunks_.pop_front();
    own_at_ = 0;
    if (--own_left_ == 0) own_.notify_all();
  }
  return true;
}

void GroupExchange::settle(OwnRead& read) {
  Place& place = place_of(read.chunk);
  read.is_in_flight = false;
  --place.in_flight;
  if (read.transfer.error) {
    const Error error = as_error(read.transfer.error);
    if (!place.error || read.transfer.offset < place.error_offset) {
      place.error = error;
      place.error_offset = read.transfer.offset;
    }
    fail_own(error);
  } else {
    counts_.storage_bytes += read.transfer.memory.size;
  }
  if (place.in_flight == 0) exchange_.notify_all();
}

void GroupExchange::fail_own(const Error& error) {
  if (!own_error_) own_error_ = error;
  exchange_.notify_all();
  own_.notify_all();
}

}  // namespace tzmark
