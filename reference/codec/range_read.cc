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
    std::size_t range = 0;
    std::uint64_t at = 0;  // in the range
    std::size_t bytes = 0;
    std::size_t before = 0;  // bytes in front of it that a whole page has
  };

  // ranges: one in host memory, or several in that of a GPU.
  RangeJob(File& file, std::span<const RangeTarget> ranges, const RangeReadOptions& options)
      : file_(file),
        ranges_(ranges),
        options_(options),
        is_on_host_(ranges.front().out.kind == MemoryKind::kHost),
        straight_(is_on_host_ || file.moves_device_memory()),
        part_bytes_(part_bytes_for(file, options.piece_bytes, options.part_bytes)),
        first_touch_(is_on_host_ ? ranges.front().out.bytes() : std::span<std::byte>()) {
    if (!is_on_host_) device_ = device_of(ranges.front().out);
    if (!straight_) copies_.emplace(device_, options.piece_bytes, /*holds_secrets=*/false);
  }

  PipelineOptions pipeline_options() const {
    PipelineOptions options;
    options.threads = options_.threads;
    options.piece_bytes = options_.piece_bytes;
    options.queue_depth = options_.queue_depth;
    if (is_on_host_) return options;
    if (straight_) {
      options.memory_bytes_max = options_.pinned_bytes_max;
      options.registered = ranges_.front().out;
    } else {
      options.pins_for = device_;
      options.check();
      fit_into(options, options_.pinned_bytes_max, 0);
    }
    return options;
  }

  bool next(Piece& piece, const Position* before) {
    while (range_ < ranges_.size() && next_ == ranges_[range_].out.size) {
      ++range_;
      next_ = 0;
    }
    if (range_ == ranges_.size() || before != nullptr) return false;
    piece = {};
    piece.position = {range_, next_};
    piece.streams = 0;
    piece.has_own_memory = straight_;
    piece.range = range_;
    piece.at = next_;
    const RangeTarget& range = ranges_[range_];
    piece.bytes = std::min(range.out.size - static_cast<std::size_t>(next_), next_piece_bytes(range));
    next_ += piece.bytes;
    return true;
  }

  std::size_t reads(Piece& piece, std::span<std::byte> memory, FileTransfers& transfers) {
    Transfer& transfer = transfers[0].transfer;
    transfers[0].file = &file_;
    transfer.offset = ranges_[piece.range].offset + piece.at;
    if (straight_) {
      transfer.memory = ranges_[piece.range].out.sub(static_cast<std::size_t>(piece.at), piece.bytes);
      if (!is_on_host_) return 1;
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
      piece.borrower =
          copies_->start_to_device(ranges_[piece.range].out.data + piece.at, memory.subspan(piece.before, piece.bytes));
    }
    if (options_.progress) options_.progress(piece.bytes);
  }
  void take_back(Piece& piece) {
    copies_->wait(static_cast<DeviceCopies::Started*>(std::exchange(piece.borrower, nullptr)));
  }
  std::size_t writes(Piece&, std::span<std::byte>, FileTransfers&) { return 0; }

 private:
  // The next piece ends where a page of the file does, or a huge one of the destination, so that one thread both clears
  // and fills it.
  std::size_t next_piece_bytes(const RangeTarget& range) const {
    const std::size_t most = options_.piece_bytes;
    if (!is_on_host_ || file_.transfer_align_bytes() > 1) return aligned_part_bytes(range.offset + next_, most);
    return aligned_part_bytes(reinterpret_cast<std::uintptr_t>(range.out.data) + next_, most,
                              std::min(most, kHugePageBytes));
  }

  std::size_t split(FileTransfers& transfers) const {
    return split_transfer(transfers, std::max(kPartAlignBytes, part_bytes_ - part_bytes_ % kPartAlignBytes));
  }

  File& file_;
  const std::span<const RangeTarget> ranges_;
  const RangeReadOptions& options_;
  const bool is_on_host_;
  const bool straight_;
  const std::size_t part_bytes_;
  int device_ = 0;
  // Where the next piece begins.
  std::size_t range_ = 0;
  std::uint64_t next_ = 0;
  FirstTouch first_touch_;              // of host memory
  std::optional<DeviceCopies> copies_;  // through pinned memory
};

void run_job(File& file, std::span<const RangeTarget> ranges, const RangeReadOptions& options) {
  std::uint64_t bytes = 0;
  for (const RangeTarget& range : ranges) bytes += range.out.size;
  if (bytes == 0) return;
  RangeJob job(file, ranges, options);
  const PipelineOptions pipeline = job.pipeline_options();
  pipeline.check();
  Pipeline(job, pipeline, bytes, &file).run();
}

}  // namespace

void read_range(File& file, std::uint64_t offset, MutableBuffer out, const RangeReadOptions& options) {
  if (out.size == 0) return;
  if (out.kind == MemoryKind::kHost && out.size <= options.piece_bytes) {
    file.read_at(offset, out);
    if (options.progress) options.progress(out.size);
    return;
  }
  const RangeTarget range{offset, out};
  run_job(file, {&range, 1}, options);
}

void read_ranges(File& file, std::span<const RangeTarget> ranges, const RangeReadOptions& options) {
  run_job(file, ranges, options);
}

}  // namespace tzmark
