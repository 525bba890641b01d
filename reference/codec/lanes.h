// Hands out the parts of several large tensors in turn, so that the hash of each keeps another core busy.
//
// Large requires: a member Chain chain; and
//   std::size_t part_bytes(std::uint64_t offset) const     how long the part that begins at offset is at most
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "codec/pipeline.h"

namespace tzmark {

// Parts of large tensors begin at multiples of this in the file, where nothing else binds them: paths that bypass the
// page cache then move them without a detour.
inline constexpr std::size_t kPartAlignBytes = 4096;

// The length of a part that begins at place, in a file or in memory, so that it ends at a multiple of align_bytes and
// has about piece_bytes. REQUIRES: align_bytes is not above piece_bytes.
inline std::size_t aligned_part_bytes(std::uint64_t place, std::size_t piece_bytes,
                                      std::size_t align_bytes = kPartAlignBytes) {
  return piece_bytes - static_cast<std::size_t>((place + piece_bytes) % align_bytes);
}

// Where in a piece's memory bytes of the file go: as far behind the beginning of a page as they are in the file.
inline std::span<std::byte> placed(std::span<std::byte> memory, std::uint64_t file_offset, std::size_t length) {
  return memory.subspan(static_cast<std::size_t>(file_offset % kPartAlignBytes), length);
}

// Whether a path moves bytes between there and memory without a detour.
inline bool moves_straight(const File& file, std::uint64_t file_offset, const std::byte* memory) {
  return (reinterpret_cast<std::uintptr_t>(memory) - file_offset) % file.transfer_align_bytes() == 0;
}

// Either a part of one large tensor, or a run of small ones. Tensors are numbered in the order of the file.
template <typename Large>
struct TensorPiece : PipelinePiece {
  std::size_t first = 0, count = 0;
  std::shared_ptr<Large> large;
  std::uint64_t offset = 0;
  std::size_t length = 0;
  std::exception_ptr failure;  // what kept the piece from being planned; it counts at its position
};

template <typename Large>
class Lanes {
 public:
  explicit Lanes(std::size_t count) : count_(count) {}

  // Whether the next piece should come from a tensor that is in no lane yet, if there is one.
  bool newcomers_turn() const { return lanes_.empty() || (count_ > 1 && turn_ == lanes_.size()); }
  bool empty() const { return lanes_.empty(); }
  bool full() const { return lanes_.size() == count_; }
  void pass_turn() { turn_ = 0; }

  // Its first part is the next one. REQUIRES: newcomers_turn(), not full().
  void add(std::size_t number, std::shared_ptr<Large> large, std::uint64_t length) {
    turn_ = lanes_.size();
    lanes_.push_back({std::move(large), number, length});
  }

  // REQUIRES: not empty().
  void take(TensorPiece<Large>& piece) {
    if (turn_ >= lanes_.size()) turn_ = 0;
    Lane& lane = lanes_[turn_];
    const std::uint64_t left = lane.length - lane.offset;
    piece.first = lane.number;
    piece.large = lane.large;
    piece.offset = lane.offset;
    piece.length = static_cast<std::size_t>(std::min<std::uint64_t>(left, lane.large->part_bytes(lane.offset)));
    piece.position = {lane.number, lane.offset};
    piece.chain = &lane.large->chain;
    piece.in_chain = lane.parts++;
    lane.offset += piece.length;
    if (lane.offset == lane.length) {
      lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(turn_));
    } else {
      ++turn_;
    }
  }

 private:
  struct Lane {
    std::shared_ptr<Large> large;
    std::size_t number;
    std::uint64_t length;
    std::uint64_t offset = 0;
    std::uint64_t parts = 0;
  };

  const std::size_t count_;
  std::vector<Lane> lanes_;
  std::size_t turn_ = 0;
};

}  // namespace tzmark
