// Deals out the tensors of a file as pieces for a pipeline: small tensors in runs, large ones in parts.
//
// Several large tensors take turns, so that each core hashes several of them side by side. A tensor that is so large
// that the hash of it alone would end last begins first, and has a core to itself: its SHA-256 cannot be divided.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "bytes/requires.h"
#include "codec/pipeline.h"
#include "tzmark/digest.h"

namespace tzmark {

// Parts of large tensors begin at multiples of this in the file unless encryption dictates otherwise: paths that bypass
// the page cache then need no bounce buffer.
inline constexpr std::size_t kPartAlignBytes = 4096;

// The length of a part that begins at place, in a file or in memory, so that it ends at a multiple of align_bytes and
// has about piece_bytes. REQUIRES: align_bytes <= piece_bytes.
inline std::size_t aligned_part_bytes(std::uint64_t place, std::size_t piece_bytes,
                                      std::size_t align_bytes = kPartAlignBytes) {
  TZMARK_REQUIRES(align_bytes <= piece_bytes);
  return piece_bytes - static_cast<std::size_t>((place + piece_bytes) % align_bytes);
}

// The part of a piece's buffer for bytes of the file: at the same offset within a page as in the file.
inline std::span<std::byte> placed(std::span<std::byte> memory, std::uint64_t file_offset, std::size_t length) {
  return memory.subspan(static_cast<std::size_t>(file_offset % kPartAlignBytes), length);
}

// Whether the file's path can transfer bytes between file_offset and memory without a bounce buffer.
inline bool moves_directly(const File& file, std::uint64_t file_offset, const std::byte* memory) {
  return (reinterpret_cast<std::uintptr_t>(memory) - file_offset) % file.memory_align_bytes() == 0;
}

// A tensor that is too large to share a piece with others.
template <typename Large>
concept LargeTensorOfLane = requires(Large& large, const Large& constant, std::uint64_t offset, std::size_t most) {
  { large.chain } -> std::same_as<Chain&>;
  { constant.data_length() } -> std::same_as<std::uint64_t>;
  // The length of the part that begins at offset, at most that many bytes.
  { constant.part_bytes(offset, most) } -> std::same_as<std::size_t>;
  // The memory that its header needs while it is open.
  { constant.header_bytes() } -> std::same_as<std::size_t>;
};

// Either a part of one large tensor, or a run of small ones. Tensors are numbered in file order.
template <typename Large>
struct TensorPiece : PipelinePiece {
  std::size_t first = 0, count = 0;
  std::shared_ptr<Large> large;
  std::uint64_t offset = 0;
  std::size_t length = 0;
};

// How many tensors whose streams may each hold a file are open at once: a small share of the files that the process may
// open.
inline std::size_t open_streams_max() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur / 8) : 1;
}

// Returns the tensors that are a large share of all, the largest first, and fewer than threads. length_of(tensor) is
// the length of its data. REQUIRES: least_bytes is more than a run may have.
template <typename LengthOf>
std::vector<std::size_t> critical_tensors(std::size_t first, std::size_t end, std::size_t threads,
                                          std::uint64_t least_bytes, LengthOf&& length_of) {
  // In more tensors than this the search itself takes milliseconds.
  constexpr std::size_t kTensorsMax = 1 << 16;
  // One stream has about half the rate of a core that hashes several side by side.
  constexpr std::uint64_t kSharesOfThread = 2;
  if (threads < 2 || end - first < 2 || end - first > kTensorsMax) return {};
  std::uint64_t total = 0;
  for (std::size_t i = first; i < end; ++i) total += length_of(i);
  const std::uint64_t least = std::max<std::uint64_t>(least_bytes, total / (kSharesOfThread * threads));
  std::vector<std::size_t> critical;
  for (std::size_t i = first; i < end; ++i) {
    if (length_of(i) >= least) critical.push_back(i);
  }
  std::ranges::stable_sort(critical, std::greater<>(), length_of);
  critical.resize(std::min(critical.size(), threads - 1));
  return critical;
}

// Returns the size of the parts of a large tensor. part_bytes: of the options; 0 for what suits the path.
inline std::size_t part_bytes_for(const File& file, std::size_t piece_bytes, std::size_t part_bytes) {
  if (part_bytes == 0) part_bytes = file.transfer_bytes_default();
  return part_bytes == 0 ? piece_bytes : std::min(part_bytes, piece_bytes);
}

// Returns the most bytes of a piece: more than the default where larger transfers suit the path.
inline std::size_t piece_bytes_for(const File& file, std::size_t piece_bytes) {
  if (piece_bytes != PipelineOptions().piece_bytes) return piece_bytes;
  return std::max(piece_bytes, file.transfer_bytes_default());
}

// Returns the size of the parts of large tensors that take turns. From the page cache 128 KiB are 1.4 times as fast as
// 2 MiB, measured on a Xeon with 2 MiB of L2 cache a core. All threads take one lock for each piece, so with more than
// four of them, which was not measured, parts are larger.
inline std::size_t turn_bytes_for(std::size_t piece_bytes, std::size_t threads) {
  const std::size_t divisor = std::clamp<std::size_t>(64 / threads, 2, 16);
  return std::max(piece_bytes / divisor, std::min<std::size_t>(piece_bytes, 64 << 10));
}

// Returns the most bytes of a run of small tensors: one transfer.
inline std::size_t run_bytes_max(std::size_t piece_bytes, std::size_t part_bytes) {
  return part_bytes == 0 ? piece_bytes : std::min(part_bytes, piece_bytes);
}

struct PartSizes {
  std::size_t part_bytes;
  // Of parts where each thread hashes several tensors: smaller, so that those of all lanes fit into the caches.
  std::size_t lane_part_bytes;
  // How many large tensors may be open, unless the threads need more.
  std::size_t lanes_max = ~std::size_t{0};
  std::size_t streams = 0;  // how many tensors a thread hashes side by side; 0 = sha256_lanes()
  // Tensors take turns only within so many bytes of the file; 0 = anywhere. place(tensor): of its data in the file.
  std::uint64_t window_bytes = 0;
  std::function<std::uint64_t(std::size_t tensor)> place = {};
};

// How many tensors a thread hashes in parallel while it moves a file: only a few with a device that works by itself,
// whose transfers do not wait then, so that less is left to do after the last one: with 4 instead of 16 streams on
// Zen 4, writes take 88 to 92 % of the time, and reads 92 to 103 %.
inline std::size_t streams_beside(const File& file) {
  return file.transfer_align_bytes() > 1 ? sha256_few_lanes() : sha256_lanes();
}

template <LargeTensorOfLane Large>
class Lanes {
 public:
  // Deals out the tensors from first to before end. hashes: whether each tensor is a stream of SHA-256, so that several
  // large tensors take turns. critical: large ones that begin before all others, in this order.
  Lanes(std::size_t first, std::size_t end, unsigned threads, bool hashes, const PartSizes& sizes,
        std::vector<std::size_t> critical = {})
      : critical_(std::move(critical)),
        next_(first),
        end_(end),
        threads_(threads),
        streams_max_(!hashes              ? 1
                     : sizes.streams != 0 ? sizes.streams
                                          : sha256_lanes()),
        lane_count_(hashes ? std::min(threads * streams_max_, std::max<std::size_t>(threads, sizes.lanes_max)) : 1),
        part_bytes_(sizes.part_bytes),
        lane_part_bytes_(streams_max_ > 1 ? sizes.lane_part_bytes : sizes.part_bytes),
        window_bytes_(sizes.window_bytes),
        place_(sizes.place) {}

  // The most of the parts that are dealt in turns.
  std::size_t lane_part_bytes() const { return lane_part_bytes_; }

  // For the pipeline: every thread shall have its share of the large tensors that take turns, also of those that are
  // about to begin.
  std::size_t streams_max() const { return streams_max_; }
  std::size_t streams_wanted() const {
    if (lanes_.empty()) return streams_max_;
    const std::size_t soon = std::max(lanes_.size(), std::min(lanes_allowed(), lanes_.size() + (end_ - next_)));
    return std::min(streams_max_, (soon + threads_ - 1) / threads_);
  }

  // Fills in the next piece; false at the end. add_to_run(tensor) adds a small tensor to the piece, or returns false if
  // it does not fit. open(tensor) returns a shared_ptr<Large>. An error of either counts at the position of its tensor.
  template <typename AddToRun, typename Open>
  bool next(TensorPiece<Large>& piece, const Position* before, AddToRun&& add_to_run, Open&& open) {
    if (critical_begun_ < critical_.size()) {
      begin_critical(piece, before, open);
      if (piece.failure) return true;
    }
    if (take_critical_part(piece, kCriticalPartsInFlight)) return true;
    while (next_ < end_ && is_critical(next_)) ++next_;
    const bool more = next_ < end_ && (before == nullptr || Position{next_, 0} < *before);
    if (more && takes_new_tensor()) {
      piece.first = next_;
      piece.position = {next_, 0};
      try {
        for (; next_ < end_ && add_to_run(next_); ++next_) ++piece.count;
        if (piece.count > 0) {
          piece.streams = piece.count;
          turn_ = 0;
          opens_ = false;
          return true;
        }
        opens_ = lanes_.size() < lanes_allowed();
        if (opens_) {
          lanes_.push_back({open(next_), next_});
          header_bytes_ += lanes_.back().large->header_bytes();
          turn_ = lanes_.size() - 1;
          ++next_;
        }
      } catch (...) {
        if (piece.count > 0) return true;  // the next piece begins with the tensor that failed
        // The error counts at its position, after pieces that are still to come.
        piece.failure = std::current_exception();
        next_ = end_;
        return true;
      }
    }
    if (lanes_.empty()) return take_critical_part(piece, ~std::uint64_t{0});
    take_part(piece);
    return true;
  }

  bool is_critical(std::size_t tensor) const { return std::ranges::find(critical_, tensor) != critical_.end(); }

 private:
  // A header has the MACs of all messages, so that those of many open tensors may be large.
  static constexpr std::size_t kHeaderBytesMax = std::size_t{32} << 20;

  // Keep the thread of a critical tensor busy.
  static constexpr std::uint64_t kCriticalPartsInFlight = 4;

  struct Lane {
    std::shared_ptr<Large> large;
    std::size_t number;
    std::uint64_t offset = 0;
    std::uint64_t parts = 0;
  };

  template <typename Open>
  void begin_critical(TensorPiece<Large>& piece, const Position* before, Open&& open) {
    const std::size_t number = critical_[critical_begun_++];
    if (before != nullptr && *before < Position{number, 0}) return;
    try {
      critical_lanes_.push_back({open(number), number});
    } catch (...) {
      piece.first = number;
      piece.position = {number, 0};
      piece.failure = std::current_exception();
    }
  }

  // Takes a part of a critical tensor of which fewer parts than that are not yet hashed; false if there is none.
  bool take_critical_part(TensorPiece<Large>& piece, std::uint64_t in_flight_max) {
    for (auto lane = critical_lanes_.begin(); lane != critical_lanes_.end(); ++lane) {
      if (lane->parts - lane->large->chain.next >= in_flight_max) continue;
      piece.is_critical = true;
      if (take_part_of(*lane, piece, part_bytes_)) critical_lanes_.erase(lane);
      return true;
    }
    return false;
  }

  std::size_t lanes_allowed() const {
    return header_bytes_ < kHeaderBytesMax ? lane_count_ : std::min(lane_count_, threads_);
  }

  // Large tensors that follow one another begin at once; after a run of small ones each lane has a turn.
  bool takes_new_tensor() const {
    return lanes_.empty() || (lane_count_ > 1 && (opens_ || turn_ == lanes_.size()) && is_in_window(next_));
  }

  bool is_in_window(std::size_t tensor) const {
    if (window_bytes_ == 0) return true;
    const std::uint64_t place = place_(tensor);
    return std::ranges::all_of(lanes_, [&](const Lane& lane) {
      const std::uint64_t reached = place_(lane.number) + lane.offset;
      return place < reached || place - reached < window_bytes_;
    });
  }

  void take_part(TensorPiece<Large>& piece) {
    if (turn_ >= lanes_.size()) turn_ = 0;
    Lane& lane = lanes_[turn_];
    const std::size_t header_bytes = lane.large->header_bytes();
    if (take_part_of(lane, piece, lanes_.size() > threads_ ? lane_part_bytes_ : part_bytes_)) {
      header_bytes_ -= header_bytes;
      lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(turn_));
    } else {
      ++turn_;
    }
  }

  // Returns whether it was the last part.
  bool take_part_of(Lane& lane, TensorPiece<Large>& piece, std::size_t most) {
    const std::uint64_t length = lane.large->data_length();
    const std::uint64_t left = length - lane.offset;
    piece.first = lane.number;
    piece.large = lane.large;
    piece.offset = lane.offset;
    piece.length = static_cast<std::size_t>(std::min<std::uint64_t>(left, lane.large->part_bytes(lane.offset, most)));
    piece.position = {lane.number, lane.offset};
    piece.is_part = most <= lane_part_bytes_ || piece.length <= lane_part_bytes_;
    piece.chain = &lane.large->chain;
    piece.in_chain = lane.parts++;
    lane.offset += piece.length;
    return lane.offset == length;
  }

  const std::vector<std::size_t> critical_;
  std::size_t critical_begun_ = 0;
  std::vector<Lane> critical_lanes_;
  std::size_t next_;
  const std::size_t end_;
  const std::size_t threads_;
  const std::size_t streams_max_;
  const std::size_t lane_count_;
  const std::size_t part_bytes_, lane_part_bytes_;
  const std::uint64_t window_bytes_;
  const std::function<std::uint64_t(std::size_t)> place_;
  std::vector<Lane> lanes_;
  std::size_t header_bytes_ = 0;  // of the lanes
  std::size_t turn_ = 0;
  bool opens_ = true;  // whether the next tensor may begin before the end of the turn
};

}  // namespace tzmark
