// The exchange of a GroupFile: the ranges of a file go through a ring of chunks, and readers copy from it.
//
// Chunks are exchanged in rounds: one that is broadcast, or one of each rank that are gathered. Rounds get their places
// in the ring in file order. Threads read this rank's own chunks from storage into them, ahead of the one thread that
// exchanges round after round. A place is free again when all bytes of its chunks that lie in a range were copied.
//
// This cannot deadlock. The next round has its place before all later ones, so that only a full ring holds it up; a
// reader that waits for a chunk without a place then takes the place of the oldest round, if no reader has copied
// anything for a while. Each rank decides this alone, and no round waits for anything but storage and the rounds before
// it.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "tzmark/error.h"
#include "tzmark/group.h"
#include "tzmark/memory.h"

namespace tzmark {

class GroupExchange {
 public:
  // Allocates the ring and starts the threads, which wait for run(). Not collective. ranges: sorted, not overlapping.
  GroupExchange(File& file, Group& group, const GroupReadOptions& options, std::vector<FileRange> ranges);
  // Of the chunks that a group of that many ranks makes of the ranges.
  static std::size_t chunk_bytes_for(const GroupReadOptions& options, unsigned ranks,
                                     std::span<const FileRange> ranges);
  // Without run(), takes part in nothing.
  ~GroupExchange();
  GroupExchange(const GroupExchange&) = delete;
  GroupExchange& operator=(const GroupExchange&) = delete;

  void run();
  // Takes part to the end, and discards what comes.
  void finish() noexcept;

  // Waits for the chunk with the byte at offset, and copies from there. Returns how much; 0 if the byte has to be read
  // from this rank's own file: bytes_here is then how many. Throws the failure if it ended before that chunk.
  struct Taken {
    std::size_t copied = 0;
    std::size_t bytes_here = 0;
    bool was_dropped = false;  // rather than outside all chunks
  };
  Taken take(std::uint64_t offset, std::span<std::byte> out);

  std::uint64_t ring_bytes() const { return std::uint64_t{ring_.size()} * round_chunks_ * chunk_bytes_; }
  std::optional<Error> failure() const;
  bool is_group_broken() const;
  // Adds its own counts.
  void add_to(GroupReadCounts& counts) const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;

  struct Chunk {
    std::uint64_t begin = 0, end = 0;
  };
  enum class RoundState : std::uint8_t { kAhead, kPlaced, kIn, kDropped };
  struct Round {
    std::uint32_t place = 0;
    RoundState state = RoundState::kAhead;
  };
  struct Place {
    std::span<std::byte> memory;    // of all chunks of a round; each begins where one would that has all its bytes
    std::vector<FileRange> wanted;  // of its chunks, still to be copied
    unsigned copying = 0;           // readers
    // Of this rank's own chunk, if the round has one.
    unsigned in_flight = 0;      // transfers from storage
    bool is_dealt = false;       // all transfers from storage have begun
    std::optional<Error> error;  // of these
    std::uint64_t error_offset = 0;
  };
  // One transfer from storage.
  struct OwnRead;

  void start(unsigned own_threads);
  void cancel();
  unsigned owner_of(std::size_t chunk) const;
  std::size_t first_of(std::size_t round) const { return round * round_chunks_; }
  std::size_t end_of(std::size_t round) const { return std::min(chunks_.size(), (round + 1) * round_chunks_); }
  std::optional<std::size_t> own_chunk_of(std::size_t round) const;
  Place& place_of(std::size_t round) { return ring_[rounds_[round].place]; }
  std::span<std::byte> part_of(std::size_t chunk);
  std::span<std::byte> memory_of(std::size_t chunk);
  void give_places();
  void drop(std::size_t round);
  void drop_oldest();

  void exchange();
  void exchange_round(std::size_t round, Lock& lock);
  void send_round(std::size_t round);
  void end(std::optional<Error> failure);

  void read_ahead();
  void read_own(TransferQueue& queue, std::span<OwnRead> reads, Lock& lock);
  bool begin_read(OwnRead& read);
  void settle(OwnRead& read);
  void fail_own(const Error& error);

  File& file_;
  Group& group_;
  const GroupReadOptions options_;
  const std::vector<FileRange> ranges_;
  std::size_t chunk_bytes_ = 0, round_chunks_ = 1;  // at most
  std::vector<Chunk> chunks_;                       // in file order
  std::vector<Round> rounds_;
  std::size_t transfer_bytes_ = 0;
  unsigned queue_depth_ = 1;  // of each thread
  HostMemory memory_;
  std::vector<Place> ring_;

  mutable std::mutex mutex_;
  std::condition_variable readers_, exchange_, own_;
  std::vector<std::uint32_t> free_;
  std::size_t next_placed_ = 0, next_exchanged_ = 0, oldest_ = 0;  // rounds
  std::deque<std::size_t> own_chunks_;                             // that have a place and are not dealt
  std::uint64_t own_at_ = 0;                                       // in the first of them; 0 = at its beginning
  std::size_t own_left_ = 0;                                       // that are not dealt, with a place or without
  unsigned own_threads_ = 0;                                       // that read
  std::optional<Error> own_error_;
  bool runs_ = false, is_cancelled_ = false, discards_ = false, has_ended_ = false;
  bool is_group_broken_ = false;
  std::optional<Error> failure_;
  Clock::time_point last_copy_;
  GroupReadCounts counts_;

  std::vector<std::jthread> exchange_thread_, reading_threads_;
};

}  // namespace tzmark
