// What a job deals out to the pipeline: pieces of a fixed size, their order, and the transfers of each.
#pragma once

#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>

#include "bytes/threads.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/memory.h"

namespace tzmark {

struct PipelineOptions {
  unsigned threads = 0;  // compute threads; 0 = one per core
  std::size_t piece_bytes = 2 << 20;
  std::size_t part_bytes = 0;        // the most of a piece with is_part; 0 = piece_bytes
  unsigned queue_depth = 0;          // transfers in flight, summed over all threads; 0 = the I/O path's default
  bool leads_on = false;             // whether pieces may lead on to others, which wait in slots of their own
  bool reads = true;                 // whether pieces begin with transfers; otherwise they begin at any time
  std::optional<int> pins_for = {};  // the GPU to or from which the buffers are copied: they come from the pinned pool
  bool holds_secrets = false;        // wipes pinned buffers before others get them
  std::size_t memory_bytes_max = std::size_t{192} << 20;  // of all buffers; an explicit depth overrides it
  MutableBuffer registered = {};  // memory outside the buffers that all transfers of the job use; may be empty

  // Throws kUsage if a size is too small or too large.
  void check() const {
    constexpr std::size_t kBytesMin = 4096;
    if (piece_bytes < kBytesMin) throw Error(ErrorCode::kUsage, "the piece size is below the minimum of 4096 bytes");
    if (part_bytes != 0 && part_bytes < kBytesMin) {
      throw Error(ErrorCode::kUsage, "the part size is below the minimum of 4096 bytes");
    }
    // Sizes of several pieces shall not overflow.
    constexpr std::size_t kBytesMax = std::size_t{1} << 40;
    if (piece_bytes > kBytesMax || part_bytes > kBytesMax) {
      throw Error(ErrorCode::kUsage, "the piece or part size is above the maximum of 1 TiB");
    }
  }
  unsigned thread_count() const { return threads != 0 ? threads : core_count(); }
};

// The order of pieces: of several errors, the one at the lowest position is thrown.
struct Position {
  std::size_t tensor = 0;
  std::uint64_t offset = 0;
  auto operator<=>(const Position&) const = default;
};

// The progress of a chain. The job keeps it alive as long as the chain has pieces.
struct Chain {
  std::uint64_t next = 0;
};

struct PipelinePiece {
  Position position;
  Chain* chain = nullptr;      // null: the piece waits for no other
  std::uint64_t in_chain = 0;  // number of the piece within its chain
  std::size_t streams = 1;     // how many the chain stage can process side by side; 0 skips the stage
  bool has_own_memory = false;
  bool leads_on = false;       // the thread that begins it begins the next piece too, if there is room for it
  bool is_part = false;        // has at most part_bytes
  bool is_critical = false;    // its chain would end last: it comes first in the chain stage, and alone
  bool chains_late = false;    // the chain stage neither changes the memory nor determines what is written
  std::exception_ptr failure;  // why the job could not plan this piece; thrown at its position
  void* borrower = nullptr;    // set by the consume stage: what uses the buffer until take_back returns
};

struct FileTransfer {
  File* file = nullptr;
  Transfer transfer;
};
inline constexpr std::size_t kTransfersOfPieceMax = 40;
// A transfer of less costs a device as much.
inline constexpr std::size_t kTransferBytesMin = 4096;
using FileTransfers = std::array<FileTransfer, kTransfersOfPieceMax>;

// Splits the first transfer, if it is larger, into several of about that many bytes, at offsets that are multiples of
// it; the last one takes up to kTransferBytesMin more. Returns how many there are.
inline std::size_t split_transfer(FileTransfers& transfers, std::size_t bytes) {
  const FileTransfer whole = transfers[0];
  if (whole.transfer.memory.size <= bytes + kTransferBytesMin) return 1;
  const std::uint64_t end = whole.transfer.offset + whole.transfer.memory.size;
  std::uint64_t at = whole.transfer.offset;
  std::size_t count = 0;
  while (count == 0 || at < end) {
    const std::uint64_t border = at - at % bytes + bytes;
    const bool is_last = count + 1 == transfers.size() || end < border + kTransferBytesMin;
    const std::uint64_t next = is_last ? end : border;
    FileTransfer& one = transfers[count++];
    one.file = whole.file;
    one.transfer.spare_bytes = is_last ? whole.transfer.spare_bytes : 0;
    one.transfer.kind = whole.transfer.kind;
    one.transfer.offset = at;
    one.transfer.memory = whole.transfer.memory;
    one.transfer.memory.data += at - whole.transfer.offset;
    one.transfer.memory.size = static_cast<std::size_t>(next - at);
    at = next;
  }
  return count;
}

// Lets transfers proceed on an asynchronous path: completes what is through, and starts what is next. Empty on other
// paths. A chain stage calls it every quarter of a millisecond or so, where it has no lock.
using KeepMoving = std::function<void()>;

// A piece in the chain stage, which sets error if the piece has failed.
template <typename Piece>
struct ChainStep {
  Piece* piece = nullptr;
  std::span<std::byte> memory;
  std::exception_ptr error;
};

// What a pipeline runs. memory is the piece's buffer, page-aligned and at least one page larger than a piece; it is
// empty for a piece that has its own memory.
template <typename Job>
concept PipelineJob = std::derived_from<typename Job::Piece, PipelinePiece> &&
    std::default_initializable<typename Job::Piece> &&
    requires(Job& job, typename Job::Piece& piece, const Position* before, std::span<std::byte> memory,
             FileTransfers& transfers, std::span<ChainStep<typename Job::Piece>> steps, const KeepMoving& keep_moving) {
  // Fills in the next piece; false at the end. Called under a lock. Pieces after *before, if given, are not needed.
  { job.next(piece, before) } -> std::same_as<bool>;
  // The most streams that a thread shall process at once; does not change.
  { job.streams_max() } -> std::same_as<std::size_t>;
  // How many of them a thread shall wait for now, as long as it has other work. Called under the same lock as next.
  { job.streams_wanted() } -> std::same_as<std::size_t>;
  // Fills in the transfers, and returns how many there are.
  { job.reads(piece, memory, transfers) } -> std::same_as<std::size_t>;
  { job.produce(piece, memory) } -> std::same_as<void>;
  // Pieces of different chains, or of none.
  { job.chain(steps, keep_moving) } -> std::same_as<void>;
  { job.consume(piece, memory) } -> std::same_as<void>;
  { job.writes(piece, memory, transfers) } -> std::same_as<std::size_t>;
};

// A job whose consume stage may leave the buffer to a copy that it only starts.
template <typename Job>
concept LendingJob = requires(Job& job, typename Job::Piece& piece) {
  // Blocks until the borrower of the piece no longer uses the buffer, also after an error.
  { job.take_back(piece) } -> std::same_as<void>;
};

}  // namespace tzmark
