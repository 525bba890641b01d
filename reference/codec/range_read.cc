// The pipeline job of a range: read, copy, done.
#include "codec/range_read.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codec/device_copies.h"
#include "codec/lanes.h"
#include "codec/pipeline.h"
#include "tzmark/first_touch.h"

namespace tzmark {
namespace {

class RangeJob {
 public:
  struct Piece : PipelinePiece {
    std::uint64_t at = 0;  // in the range
    std::size_t bytes = 0;
    std::size_t before = 0;  // bytes in front of it that a whole page has
  };

  RangeJob(File& file, std::uint64_t offset, MutableBuffer out, const RangeReadOptions& options)
      : file_(file),
        offset_(offset),
        out_(out),
        options_(options),
        straight_(out.kind == MemoryKind::kHost || file.moves_device_memory()),
        part_bytes_(part_bytes_for(file, options.piece_bytes, options.part_bytes)),
        first_touch_(out.kind == MemoryKind::kHost ? out.bytes() : std::span<std::byte>()) {
    if (!straight_) copies_.emplace(device_of(out), options.piece_bytes, /*holds_secrets=*/false);
  }

  PipelineOptions pipeline_options() const {
    PipelineOptions options;
    options.threads = options_.threads;
    options.piece_bytes = options_.piece_bytes;
    options.queue_depth = options_.queue_depth;
    if (out_.kind == MemoryKind::kHost) return options;
    options.memory_bytes_max = options_.pinned_bytes_max;
    if (straight_) {
      options.registered = out_;
    } else {
      options.pins_for = device_of(out_);
    }
    return options;
  }

  bool next(Piece& piece, const Position* before) {
    if (next_ >= out_.size || before != nullptr) return false;
    piece = {};
    piece.position = {0, next_};
    piece.streams = 0;
    piece.has_own_memory = straight_;
    piece.at = next_;
    // The next one begins where a page of the file does.
    piece.bytes = std::min(out_.size - static_cast<std::size_t>(next_),
                           aligned_part_bytes(offset_ + next_, options_.piece_bytes));
    next_ += piece.bytes;
    return true;
  }

  std::size_t reads(Piece& piece, std::span<std::byte> memory, FileTransfers& transfers) {
    Transfer& transfer = transfers[0].transfer;
    transfers[0].file = &file_;
    transfer.offset = offset_ + piece.at;
    if (straight_) {
      transfer.memory = out_.sub(static_cast<std::size_t>(piece.at), piece.bytes);
      if (out_.kind == MemoryKind::kDevice) return 1;
      first_touch_.touch(transfer.memory.bytes());
      return split(transfers);
    }
    std::size_t bytes = piece.bytes;
    if (file_.transfer_align_bytes() > 1) {
      // Whole pages, for which the buffer has room, so that a path that transfers them needs a single call.
      piece.before = static_cast<std::size_t>(transfer.offset % kPartAlignBytes);
      transfer.offset -= piece.before;
      const std::uint64_t end = transfer.offset + piece.before + bytes + kPartAlignBytes - 1;
      bytes = static_cast<std::size_t>(std::min(file_.size(), end - end % kPartAlignBytes) - transfer.offset);
    }
    transfer.memory = memory.first(bytes);
    transfer.spare_bytes = memory.size() - bytes;
    return split(transfers);
  }

  void produce(Piece&, std::span<std::byte>) {}
  std::size_t streams_max() const { return 0; }
  std::size_t streams_wanted() const { return 0; }
  void chain(std::span<ChainStep<Piece>>, const KeepMoving&) {}

  void consume(Piece& piece, std::span<std::byte> memory) {
    if (!straight_) {
      piece.borrower = copies_->start_to_device(out_.data + piece.at, memory.subspan(piece.before, piece.bytes));
    }
    if (options_.progress) options_.progress(piece.bytes);
  }
  void take_back(Piece& piece) {
    copies_->wait(static_cast<DeviceCopies::Started*>(std::exchange(piece.borrower, nullptr)));
  }
  std::size_t writes(Piece&, std::span<std::byte>, FileTransfers&) { return 0; }

 private:
  std::size_t split(FileTransfers& transfers) const {
    return split_transfer(transfers, std::max(kPartAlignBytes, part_bytes_ - part_bytes_ % kPartAlignBytes));
  }

  File& file_;
  const std::uint64_t offset_;
  const MutableBuffer out_;
  const RangeReadOptions& options_;
  const bool straight_;
  const std::size_t part_bytes_;
  std::uint64_t next_ = 0;
  FirstTouch first_touch_;              // of host memory
  std::optional<DeviceCopies> copies_;  // through pinned memory
};

}  // namespace

void read_range(File& file, std::uint64_t offset, MutableBuffer out, const RangeReadOptions& options) {
  if (out.size == 0) return;
  if (out.kind == MemoryKind::kHost && out.size <= options.piece_bytes) {
    file.read_at(offset, out);
    if (options.progress) options.progress(out.size);
    return;
  }
  RangeJob job(file, offset, out, options);
  const PipelineOptions pipeline = job.pipeline_options();
  pipeline.check();
  Pipeline(job, pipeline, out.size, &file).run();
}

}  // namespace tzmark
