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

// To gather, each rank shall have several chunks, so that storage and network work at the same time; but a chunk takes
// longer than what an exchange costs besides its bytes.
constexpr std::size_t kRoundsWanted = 8;
constexpr std::size_t kGatheredBytesMin = 128 << 10;

constexpr std::size_t kTransferBytes = 2 << 20;  // where the path has no default, as of Reader
constexpr unsigned kBlockingThreadsMax = 4;      // where the path has no depth: copies from the page cache
constexpr unsigned kRemoteThreadsMax = 4;        // each of which decrypts TLS

// How long readers copy nothing before one that waits drops a chunk that another one may still want. Steps of the
// pipeline take about a millisecond.
constexpr std::chrono::milliseconds kPatience{20};
constexpr std::chrono::milliseconds kBetweenChecks{250};  // see set_wait_check

// What the check of the group throws; nothing if it does not.
std::optional<Error> failed_check(Group& group) {
  try {
    group.check();
  } catch (...) {
    return as_error(std::current_exception());
  }
  return std::nullopt;
}

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
  std::size_t round = 0;
  bool is_in_flight = false;
};

GroupExchange::GroupExchange(File& file, Group& group, const GroupReadOptions& options, std::vector<FileRange> ranges)
    : file_(file),
      group_(group),
      options_(options),
      ranges_(std::move(ranges)),
      chunk_bytes_(chunk_bytes_for(options, group.size(), ranges_)),
      round_chunks_(options.how == GroupRead::kGather ? group.size() : 1) {
  const std::uint64_t chunk_bytes = chunk_bytes_;
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
  rounds_.resize((chunks_.size() + round_chunks_ - 1) / round_chunks_);
  const std::size_t place_bytes = round_chunks_ * (chunk_bytes_ + kAfterChunkBytes);
  const std::size_t places =
      std::min(rounds_.size(), std::max<std::size_t>(2, options_.memory_bytes_max / place_bytes));
  memory_ = HostMemory(places * place_bytes);
  ring_.resize(places);
  for (std::size_t i = 0; i < places; ++i) {
    ring_[i].memory = memory_.bytes().subspan(i * place_bytes, place_bytes);
    free_.push_back(static_cast<std::uint32_t>(places - 1 - i));
  }
  for (std::size_t i = 0; i < rounds_.size(); ++i) own_left_ += own_chunk_of(i) ? 1 : 0;

  const std::size_t suited = options_.transfer_bytes != 0 ? options_.transfer_bytes : file_.transfer_bytes_default();
  transfer_bytes_ =
      std::max(kRingAlignBytes, (suited != 0 ? suited : kTransferBytes) / kRingAlignBytes * kRingAlignBytes);
  transfer_bytes_ = std::min(transfer_bytes_, chunk_bytes_);
  const std::uint64_t transfers = own_left_ * (chunk_bytes_ / transfer_bytes_ + 1);
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

std::size_t GroupExchange::chunk_bytes_for(const GroupReadOptions& options, unsigned ranks,
                                           std::span<const FileRange> ranges) {
  if (options.how == GroupRead::kBroadcast) return options.chunk_bytes;
  std::uint64_t bytes = 0;
  for (const FileRange& range : ranges) bytes += range.end - range.begin;
  const std::uint64_t of_share = bytes / (kRoundsWanted * ranks);
  const std::uint64_t of_memory = options.memory_bytes_max / (2 * std::uint64_t{ranks});
  const std::uint64_t wanted = std::max<std::uint64_t>(kGatheredBytesMin, std::min(of_share, of_memory));
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(options.chunk_bytes, wanted / kRingAlignBytes * kRingAlignBytes));
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
      if (rounds_[i].state == RoundState::kIn && place_of(i).copying == 0) drop(i);
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

std::optional<std::size_t> GroupExchange::own_chunk_of(std::size_t round) const {
  const std::size_t chunk = first_of(round) + (options_.how == GroupRead::kGather ? group_.rank() : 0);
  return chunk < end_of(round) && owner_of(chunk) == group_.rank() ? std::optional(chunk) : std::nullopt;
}

// Where the chunk lies in the place of its round, with room for all its bytes and what follows them.
std::span<std::byte> GroupExchange::part_of(std::size_t chunk) {
  const std::size_t part_bytes = chunk_bytes_ + kAfterChunkBytes;
  return place_of(chunk / round_chunks_).memory.subspan(chunk % round_chunks_ * part_bytes, part_bytes);
}

// The chunk and the report after it. Its address is congruent to its offset modulo the page size, so that a path that
// bypasses the page cache needs no bounce buffer.
std::span<std::byte> GroupExchange::memory_of(std::size_t chunk) {
  const Chunk& c = chunks_[chunk];
  return part_of(chunk).subspan(static_cast<std::size_t>(c.begin % chunk_bytes_),
                                static_cast<std::size_t>(c.end - c.begin) + kReportBytes);
}

// The lock is held, here and below.
void GroupExchange::give_places() {
  if (!runs_) return;
  for (; next_placed_ < rounds_.size() && !free_.empty(); ++next_placed_) {
    Round& round = rounds_[next_placed_];
    round.place = free_.back();
    round.state = RoundState::kPlaced;
    free_.pop_back();
    Place& place = ring_[round.place];
    place.wanted.clear();
    const std::uint64_t begin = chunks_[first_of(next_placed_)].begin, end = chunks_[end_of(next_placed_) - 1].end;
    auto range = std::ranges::partition_point(ranges_, [&](const FileRange& r) { return r.end <= begin; });
    for (; range != ranges_.end() && range->begin < end; ++range) {
      const FileRange part{std::max(range->begin, begin), std::min(range->end, end)};
      if (part.begin < part.end) place.wanted.push_back(part);
    }
    place.is_dealt = false;
    place.error.reset();
    if (const auto own = own_chunk_of(next_placed_)) {
      own_chunks_.push_back(*own);
      own_.notify_all();
    }
    if (next_placed_ == next_exchanged_) exchange_.notify_all();
  }
}

void GroupExchange::drop(std::size_t round) {
  rounds_[round].state = RoundState::kDropped;
  free_.push_back(rounds_[round].place);
  while (oldest_ < next_exchanged_ && rounds_[oldest_].state == RoundState::kDropped) ++oldest_;
  give_places();
}

void GroupExchange::drop_oldest() {
  for (std::size_t i = oldest_; i < next_exchanged_; ++i) {
    if (rounds_[i].state != RoundState::kIn || place_of(i).copying > 0) continue;
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
  const std::size_t round_number = number / round_chunks_;
  const Round& round = rounds_[round_number];
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), chunk.end - offset));
  Lock lock(mutex_);
  auto next_check = Clock::now() + kBetweenChecks;
  while (round.state != RoundState::kIn) {
    if (round.state == RoundState::kDropped) return {.bytes_here = bytes, .was_dropped = true};
    if (failure_) throw Error(*failure_);
    if (has_ended_ || !runs_) return {.bytes_here = bytes};
    const Clock::time_point now = Clock::now();
    const bool is_ring_full = next_exchanged_ < rounds_.size() && rounds_[next_exchanged_].state == RoundState::kAhead;
    if (is_ring_full && now - last_copy_ >= kPatience) drop_oldest();
    if (now >= next_check) {
      lock.unlock();
      check_wait();
      next_check = now + kBetweenChecks;
      lock.lock();
      continue;
    }
    readers_.wait_for(lock, round.state == RoundState::kAhead ? kPatience : kBetweenChecks);
  }
  Place& place = ring_[round.place];
  ++place.copying;
  lock.unlock();
  std::memcpy(out.data(), memory_of(number).data() + (offset - chunk.begin), bytes);
  lock.lock();
  --place.copying;
  last_copy_ = Clock::now();
  subtract(place.wanted, offset, offset + bytes);
  if (place.copying == 0 && (place.wanted.empty() || discards_)) drop(round_number);
  return {.copied = bytes};
}

void GroupExchange::exchange() {
  Lock lock(mutex_);
  exchange_.wait(lock, [this] { return runs_ || is_cancelled_; });
  if (!runs_) return;
  try {
    for (std::size_t i = 0; i < rounds_.size() && !has_ended_; ++i) exchange_round(i, lock);
    if (!has_ended_) end(std::nullopt);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    is_group_broken_ = true;
    end(as_error(std::current_exception()));
  }
}

void GroupExchange::exchange_round(std::size_t number, Lock& lock) {
  const std::optional<std::size_t> own = own_chunk_of(number);
  exchange_.wait(lock, [&] {
    if (rounds_[number].state == RoundState::kAhead) return false;
    const Place& place = place_of(number);
    return !own || (place.in_flight == 0 && (place.is_dealt || own_error_));
  });
  if (own) {
    const Place& place = place_of(number);
    RankReport report{.number = *own, .file_bytes = file_.size()};
    if (place.error || !place.is_dealt) {
      report.error = of_rank(group_.rank(), place.error ? *place.error : *own_error_);
    } else if (const std::optional<Error> interrupted = failed_check(group_)) {
      report.error = of_rank(group_.rank(), *interrupted);
    }
    encode_report(report, memory_of(*own).last(kReportBytes));
  }
  lock.unlock();
  send_round(number);
  std::optional<Error> error;
  for (std::size_t chunk = first_of(number); chunk < end_of(number); ++chunk) {
    RankReport report = decode_report(memory_of(chunk).last(kReportBytes), chunk);
    if (!error) error = std::move(report.error);
  }
  lock.lock();
  for (std::size_t chunk = first_of(number); chunk < end_of(number); ++chunk) {
    ++counts_.chunks;
    (chunk == own ? counts_.sent_bytes : counts_.received_bytes) += memory_of(chunk).size();
  }
  if (error) {
    end(std::move(error));
    return;
  }
  rounds_[number].state = RoundState::kIn;
  ++next_exchanged_;
  if (discards_) drop(number);
  readers_.notify_all();
}

// Without the lock.
void GroupExchange::send_round(std::size_t round) {
  if (round_chunks_ > 1 && end_of(round) - first_of(round) == round_chunks_) {
    gather_together(group_, place_of(round).memory);
    return;
  }
  // The last one has fewer chunks than there are ranks: parts without a chunk are not worth sending.
  for (std::size_t chunk = first_of(round); chunk < end_of(round); ++chunk) {
    broadcast_together(group_, memory_of(chunk), owner_of(chunk));
  }
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
  Place& place = place_of(number / round_chunks_);
  const std::span<std::byte> part = part_of(number);
  // Whole pages, for which there is room, so that a path that transfers them needs a single call.
  const bool takes_pages = file_.transfer_align_bytes() > 1;
  std::uint64_t first = chunk.begin, last = chunk.end;
  if (takes_pages) {
    first -= first % kRingAlignBytes;
    last = std::min(file_.size(), (last + kRingAlignBytes - 1) / kRingAlignBytes * kRingAlignBytes);
  }
  const std::uint64_t base = chunk.begin - chunk.begin % chunk_bytes_;
  const std::uint64_t begin = std::max(own_at_, first);
  const std::uint64_t end = std::min(last, begin - begin % transfer_bytes_ + transfer_bytes_);
  read.transfer.kind = Transfer::Kind::kRead;
  read.transfer.offset = begin;
  read.transfer.memory = part.subspan(static_cast<std::size_t>(begin - base), static_cast<std::size_t>(end - begin));
  read.transfer.owner = &read;
  read.transfer.error = nullptr;
  read.transfer.spare_bytes = end == last ? part.size() - static_cast<std::size_t>(end - base) : 0;
  read.round = number / round_chunks_;
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
  Place& place = place_of(read.round);
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
