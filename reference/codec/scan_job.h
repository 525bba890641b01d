// The pipeline job of all bulk reads: reads tensors piece by piece, large ones in parts and small ones in runs, and
// decrypts and hashes them.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "bytes/requires.h"
#include "codec/chain_stage.h"
#include "codec/header_prefetch.h"
#include "codec/lanes.h"
#include "codec/reader_state.h"
#include "codec/run.h"
#include "tzmark/error.h"
#include "tzmark/first_touch.h"
#include "tzmark/reader.h"

namespace tzmark {

// A tensor that is too large to share a piece with others.
class LargeTensor {
 public:
  // header: if there is none, open reads it. destination: where the plaintext goes, if its parts shall follow that;
  // else null.
  LargeTensor(const ReaderState& state, std::size_t tensor, std::optional<std::vector<std::byte>> header,
              std::byte* destination)
      : state_(state),
        tensor_(tensor),
        header_bytes_(header ? header->size() : header_room(state.index, tensor)),
        first_byte_(reinterpret_cast<std::uintptr_t>(destination)) {
    if (header) stream_.emplace(state, tensor, *std::move(header));
  }

  std::uint64_t data_length() const { return state_.index.tensors[tensor_].data_length; }
  std::size_t header_bytes() const { return header_bytes_; }
  // Parts follow the file, or end where huge pages of the destination do: a page fault then concerns one thread only.
  // REQUIRES: there is a header or a destination.
  std::size_t part_bytes(std::uint64_t offset, std::size_t most) const {
    if (first_byte_ == 0) return stream_->part_bytes(offset, most);
    return aligned_part_bytes(first_byte_ + offset, most, std::min(most, kHugePageBytes));
  }

  // Makes the stream, or throws each time what the first call has thrown. Any thread; once for each part, before the
  // stream is used.
  void open() {
    const std::lock_guard lock(mutex_);
    if (stream_) return;
    if (error_) std::rethrow_exception(error_);
    try {
      stream_.emplace(state_, tensor_, read_header(*state_.file, state_.index, tensor_));
    } catch (...) {
      error_ = std::current_exception();
      throw;
    }
  }
  FileTensorStream& stream() { return *stream_; }
  const FileTensorStream& stream() const { return *stream_; }

  Chain chain;
  TensorDigest digest;
  Sha256 plain;

 private:
  const ReaderState& state_;
  const std::size_t tensor_;
  const std::size_t header_bytes_;
  const std::uintptr_t first_byte_;
  std::mutex mutex_;
  std::optional<FileTensorStream> stream_;
  std::exception_ptr error_;
};

// Returns the destination of a tensor's plaintext: memory of data_length bytes.
using TargetOf = std::function<std::byte*(std::size_t tensor)>;

class ScanJob {
 public:
  struct Piece : TensorPiece<LargeTensor> {
    Run run;
    std::uint32_t crc32 = 0;
  };

  // Reads tensors first to end - 1 in file order. into: empty to discard the data. destination: new memory that
  // contains all targets, and that nothing else uses meanwhile; empty if it is not known. piece_bytes: of large
  // tensors, at least that of the state, and the same where tensors are hashed in lanes; 0 = that of the state.
  ScanJob(const ReaderState& state, const ScanOptions& options, std::size_t first, std::size_t end,
          const std::function<void(const ScannedTensor&)>& done, TargetOf into, std::span<std::byte> destination = {},
          std::size_t piece_bytes = 0)
      : state_(state),
        options_(options),
        piece_limit_(piece_bytes != 0 ? piece_bytes : state.options.piece_bytes),
        run_limit_(run_bytes_max(state.options.piece_bytes, state.options.part_bytes)),
        lanes_(first, end, state.pipeline_options().thread_count(), wants_sha256(options),
               {part_bytes_of(state, piece_limit_), lane_part_bytes_of(state, piece_limit_), ~std::size_t{0},
                wants_sha256(options) ? streams_beside(state.data()) : 1, state.data().window_bytes(),
                [this](std::size_t i) { return info(i).data_offset; }},
               critical_of(state, options, first, end)),
        end_(end),
        follows_destination_(into && !state.index.header.encrypted && state.data().transfer_align_bytes() == 1),
        reads_headers_late_(follows_destination_ && !state.file->is_remote() && state.data().window_bytes() == 0),
        keeps_pages_(follows_destination_ && !wants_sha256(options) && !state.data().is_remote() &&
                     state.data().window_bytes() == 0 && state.pipeline_options().thread_count() > 1),
        headers_(state, end, [this](std::size_t i) { return is_large(i); }),
        done_(done),
        into_(std::move(into)),
        destination_(destination) {}

  std::size_t lane_part_bytes() const { return lanes_.lane_part_bytes(); }

  // Reads about that many bytes.
  void run(std::uint64_t work_bytes) {
    PipelineOptions options = state_.pipeline_options();
    options.part_bytes = lane_part_bytes();
    options.leads_on = keeps_pages_;
    Pipeline(*this, options, work_bytes, &state_.data()).run();
  }

  bool next(Piece& piece, const Position* before) {
    piece.run = Run(state_.index.layout);
    const auto open = [&](std::size_t i) {
      const std::size_t tensor = state_.index.in_file_order(i);
      std::byte* const destination = follows_destination_ ? into_(tensor) : nullptr;
      std::optional<std::vector<std::byte>> header;
      // That of an empty tensor may be null.
      if (!reads_headers_late_ || destination == nullptr) {
        header = lanes_.is_critical(i) ? read_header(*state_.file, state_.index, tensor) : headers_.take(i);
      }
      return std::make_shared<LargeTensor>(state_, tensor, std::move(header), destination);
    };
    const auto add_to_run = [&](std::size_t i) {
      return !(keeps_pages_ && ends_with_page(piece, i)) && add_to(piece.run, i);
    };
    if (!lanes_.next(piece, before, add_to_run, open)) return false;
    piece.has_own_memory = piece.large && is_read_to_destination(piece);
    piece.leads_on = keeps_pages_ && shares_page_with_next(piece);
    if (piece.large && !verifies() && !options_.plain_sha256 && !done_) {
      piece.chain = nullptr;
      piece.streams = 0;
    }
    return true;
  }

  std::size_t reads(Piece& piece, std::span<std::byte> memory, FileTransfers& transfers) {
    if (piece.large) {
      piece.large->open();
      if (!piece.large->stream().is_read_raw(piece_limit_)) return 0;
      if (piece.has_own_memory) destination_.touch(target_of(piece, memory));
      plan_read(transfers[0], piece, memory);
      return split(transfers);
    }
    const Run& run = piece.run;
    memory = placed(memory, run.front().begin, run.bytes());
    std::size_t count = 0;
    add_reads(piece, *state_.file, run.front(), memory.first(run.front().bytes()), transfers, count);
    add_reads(piece, state_.data(), run.data(), memory.subspan(run.front().bytes()), transfers, count);
    return count;
  }

  std::size_t streams_max() const { return lanes_.streams_max(); }
  std::size_t streams_wanted() const { return lanes_.streams_wanted(); }

  void produce(Piece& piece, std::span<std::byte> memory) {
    if (!piece.large) return;  // the chain stage has all of a run
    FileTensorStream& stream = piece.large->stream();
    const std::span<std::byte> plaintext = plaintext_of(piece, memory);
    if (into_) destination_.touch(plaintext);
    if (stream.is_read_raw(piece_limit_)) {
      stream.decrypt(piece.offset, target_of(piece, memory), plaintext);
    } else {
      stream.read(piece.offset, plaintext);
    }
    if (wants_crc32(*stream.expected())) piece.crc32 = crc32(0, plaintext);
  }

  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving& keep_moving) {
    chain(steps, keep_moving, [&](std::size_t tensor, std::span<const std::byte> data) {
      if (!into_ || into_(tensor) == data.data()) return;
      destination_.touch({into_(tensor), data.size()});
      std::memcpy(into_(tensor), data.data(), data.size());
    });
  }

  // As above, and calls deliver(tensor, plaintext) for each small tensor that has data.
  template <typename Deliver>
  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving& keep_moving, const Deliver& deliver) {
    Hashing<Deliver> hashing{*this, deliver};
    ChainStage(hashing, steps, keep_moving).run();
  }

  void consume(Piece& piece, std::span<std::byte>) {
    if (!state_.options.progress) return;
    state_.options.progress(piece.large ? piece.length : piece.run.bytes());
  }

  std::size_t writes(Piece&, std::span<std::byte>, FileTransfers&) { return 0; }

  // Plans the transfer of a part of a large tensor. The buffer has room for the whole pages in which the part begins
  // and ends, so that a path that transfers whole pages needs a single call.
  void plan_read(FileTransfer& transfer, const Piece& piece, std::span<std::byte> memory) const {
    File& file = state_.data();
    std::uint64_t begin = file_offset_of(piece);
    std::span<std::byte> target = target_of(piece, memory);
    if (!piece.has_own_memory && file.transfer_align_bytes() > 1) {
      std::uint64_t end = begin + piece.length + kPartAlignBytes - 1;
      end = std::min(file.size(), end - end % kPartAlignBytes);
      begin -= begin % kPartAlignBytes;
      target = memory.first(static_cast<std::size_t>(end - begin));
    }
    transfer.file = &file;
    transfer.transfer.offset = begin;
    transfer.transfer.memory = target;
    // The buffer has room for the whole page in which the file ends.
    if (!piece.has_own_memory) {
      const std::byte* const end_of_target = target.data() + target.size();
      transfer.transfer.spare_bytes = static_cast<std::size_t>(memory.data() + memory.size() - end_of_target);
    }
  }

  // Splits the transfer of a piece, which may be a message of encryption, into parts of about the size that suits the
  // path, and returns how many there are.
  std::size_t split(FileTransfers& transfers) const {
    const std::size_t part_bytes = part_bytes_for(state_.data(), piece_limit_, state_.options.part_bytes);
    return split_transfer(transfers, std::max(kPartAlignBytes, part_bytes - part_bytes % kPartAlignBytes));
  }

  // The offset of a part of a large tensor in the file, and the location of its plaintext after produce.
  std::uint64_t file_offset_of(const Piece& piece) const { return info(piece.first).data_offset + piece.offset; }
  std::span<std::byte> plaintext_of(const Piece& piece, std::span<std::byte> memory) const {
    if (into_) return {destination_of(piece), piece.length};
    return target_of(piece, memory);
  }

 private:
  static bool wants_sha256(const ScanOptions& options) {
    return options.verify == Verification::kAll || options.plain_sha256;
  }

  static std::size_t part_bytes_of(const ReaderState& state, std::size_t piece_bytes) {
    // The messages of encryption are not divided.
    if (state.index.header.encrypted) return piece_bytes;
    return part_bytes_for(state.data(), piece_bytes, state.options.part_bytes);
  }

  // A device wants the transfers that suit it: half of them cost 9 to 14 % on Zen 4.
  static std::size_t lane_part_bytes_of(const ReaderState& state, std::size_t piece_limit) {
    if (state.index.header.encrypted) return piece_limit;
    const std::size_t piece_bytes = state.options.piece_bytes;
    if (state.data().transfer_align_bytes() > 1 || state.data().is_remote()) return part_bytes_of(state, piece_bytes);
    return std::min(part_bytes_of(state, piece_bytes),
                    turn_bytes_for(piece_bytes, state.pipeline_options().thread_count()));
  }

  static std::vector<std::size_t> critical_of(const ReaderState& state, const ScanOptions& options, std::size_t first,
                                              std::size_t end) {
    if (!wants_sha256(options) || state.data().window_bytes() != 0) return {};
    return critical_tensors(
        first, end, state.pipeline_options().thread_count(), state.options.piece_bytes + 1,
        [&](std::size_t i) { return state.index.tensors[state.index.in_file_order(i)].data_length; });
  }

  using Parts = std::vector<Sha256Part>;
  struct SmallTensor {
    std::size_t index = 0;
    TensorHeader header;
    std::span<const std::byte> header_bytes;
    ExpectedHashes expected;
    std::span<std::byte> data;
    TensorDigest digest;
    Sha256 plain;
  };

  // What ChainStage calls.
  template <typename Deliver>
  struct Hashing {
    using Small = SmallTensor;
    void open_small(Small& small, const ChainStep<Piece>& step, std::size_t i, Parts& parts) {
      job.open_small(small, *step.piece, step.memory, i, parts);
    }
    void finish_small(Small& small, const ChainStep<Piece>&) { job.finish_small(small, deliver); }
    void add_part(const ChainStep<Piece>& step, Parts& parts) { job.add_part(*step.piece, step.memory, parts); }
    void finish_part(const ChainStep<Piece>& step) { job.finish_part(*step.piece); }

    ScanJob& job;
    const Deliver& deliver;
  };

  void open_small(SmallTensor& small, const Piece& piece, std::span<std::byte> memory, std::size_t i, Parts& parts) {
    const Run& run = piece.run;
    memory = placed(memory, run.front().begin, run.bytes());
    small.index = state_.index.in_file_order(i);
    const TensorInfo tensor = state_.index.tensors[small.index];
    small.header_bytes = decode_header(
        state_.index, small.index,
        memory.subspan(run.header_at(tensor.header_offset), header_room(state_.index, small.index)), small.header);
    small.data = tensor.data_length == 0          ? std::span<std::byte>()
                 : is_read_to_destination(tensor) ? std::span(into_(small.index), tensor.data_length)
                                                  : memory.subspan(run.data_at(tensor.data_offset), tensor.data_length);
    decrypt(tensor, small.header, small.data);
    if (verifies()) {
      small.expected = ExpectedHashes(state_.index.layout, small.header_bytes, small.header, tensor.header_offset);
      begin(small.digest, small.expected);
      small.digest.add(small.data, wants_crc32(small.expected) ? crc32(0, small.data) : 0, parts);
    }
    if (!options_.plain_sha256) return;
    small.plain.reset();
    parts.push_back({&small.plain, small.data});
  }

  template <typename Deliver>
  void finish_small(SmallTensor& small, const Deliver& deliver) {
    if (verifies()) small.expected.check(small.digest.crc32(), small.digest.finish_sha256(), options_.verify);
    if (!small.data.empty()) deliver(small.index, small.data);
    report(small.index, small.header, small.header_bytes,
           options_.plain_sha256 ? std::optional(small.plain.finish()) : std::nullopt);
  }

  void add_part(const Piece& piece, std::span<std::byte> memory, Parts& parts) {
    LargeTensor& tensor = *piece.large;
    const std::span<const std::byte> data = plaintext_of(piece, memory);
    if (verifies()) {
      if (piece.offset == 0) begin(tensor.digest, *tensor.stream().expected());
      tensor.digest.add(data, piece.crc32, parts);
    }
    if (options_.plain_sha256) parts.push_back({&tensor.plain, data});
  }

  void finish_part(const Piece& piece) {
    LargeTensor& tensor = *piece.large;
    const std::size_t index = state_.index.in_file_order(piece.first);
    if (piece.offset + piece.length < state_.index.tensors[index].data_length) return;
    if (verifies()) {
      tensor.stream().expected()->check(tensor.digest.crc32(), tensor.digest.finish_sha256(), options_.verify);
    }
    report(index, tensor.stream().header(), tensor.stream().header_bytes(),
           options_.plain_sha256 ? std::optional(tensor.plain.finish()) : std::nullopt);
  }

  bool verifies() const { return options_.verify != Verification::kNone; }
  bool wants_crc32(const ExpectedHashes& expected) const { return verifies() && expected.wants_crc32(); }
  void begin(TensorDigest& digest, const ExpectedHashes& expected) const {
    const bool wants_sha256 = options_.verify == Verification::kAll && expected.wants_sha256();
    digest.begin(expected.hashed_header(), wants_crc32(expected), wants_sha256);
  }

  TensorInfo info(std::size_t i) const { return state_.index.tensors[state_.index.in_file_order(i)]; }

  // Where a thread keeps its pages, a tensor of so much is read in parts, which end where pages do.
  static constexpr std::uint64_t kPartOfPageBytes = kHugePageBytes / 4;

  bool add_to(Run& run, std::size_t i) const {
    const TensorInfo tensor = info(i);
    if (keeps_pages_ && tensor.data_length >= kPartOfPageBytes) return false;
    const std::uint64_t header_end = tensor.header_offset + header_room(state_.index, state_.index.in_file_order(i));
    return run.add(tensor.header_offset, header_end, tensor.data_offset, tensor.data_length, run_limit_);
  }

  // Whether a run ends before tensor i, which begins in another huge page of the destination. It makes no difference to
  // tensors that are copied there.
  bool ends_with_page(const Piece& piece, std::size_t i) const {
    return piece.count > 0 && is_read_to_destination(info(i)) && page_of(piece.first, 0) != page_of(i, 0);
  }
  // Whether the next piece begins in the huge page in which this one does.
  bool shares_page_with_next(const Piece& piece) const {
    const std::uintptr_t page = page_of(piece.first, piece.offset);
    if (piece.large && piece.offset + piece.length < piece.large->data_length()) {
      return page_of(piece.first, piece.offset + piece.length) == page;
    }
    const std::size_t next = piece.first + std::max<std::size_t>(1, piece.count);
    if (next >= end_) return false;
    // Two runs of tensors that are copied are enough for two threads.
    const bool is_much = !piece.large && piece.run.bytes() >= run_limit_ / 2 && !is_read_to_destination(info(next));
    return !is_much && page_of(next, 0) == page;
  }
  // The huge page of the destination that has a byte of a tensor.
  std::uintptr_t page_of(std::size_t i, std::uint64_t offset) const {
    return (reinterpret_cast<std::uintptr_t>(into_(state_.index.in_file_order(i))) + offset) / kHugePageBytes;
  }

  bool is_large(std::size_t i) const {
    Run run(state_.index.layout);
    return !lanes_.is_critical(i) && !add_to(run, i);
  }

  // The destination of a part of a large tensor.
  std::byte* destination_of(const Piece& piece) const {
    return into_(state_.index.in_file_order(piece.first)) + piece.offset;
  }
  bool is_read_to_destination(const Piece& piece) const {
    return into_ && moves_directly(state_.data(), file_offset_of(piece), destination_of(piece));
  }

  // The same for a tensor of a run. A copy of less costs no more than a transfer.
  bool is_read_to_destination(const TensorInfo& tensor) const {
    constexpr std::size_t kWorthATransferBytes = 64 << 10;
    // Leaves room for the reads of what lies between such tensors.
    const std::size_t least = std::max(kWorthATransferBytes, run_limit_ / (kTransfersOfPieceMax / 2 - 2));
    return into_ && !state_.index.header.encrypted && state_.data().memory_align_bytes() == 1 &&
           !state_.data().is_remote() && tensor.data_length >= least;
  }

  // Adds the reads of a range of a run. memory: for what is not read to its destination.
  void add_reads(const Piece& piece, File& file, const Run::Range& range, std::span<std::byte> memory,
                 FileTransfers& transfers, std::size_t& count) {
    std::uint64_t at = range.begin;
    const auto add = [&](std::uint64_t offset, std::span<std::byte> bytes) {
      if (bytes.empty()) return;
      TZMARK_REQUIRES(count < transfers.size());
      transfers[count].file = &file;
      transfers[count].transfer.offset = offset;
      transfers[count].transfer.memory = bytes;
      ++count;
    };
    const auto add_to_memory = [&](std::uint64_t end) {
      add(at, memory.subspan(static_cast<std::size_t>(at - range.begin), static_cast<std::size_t>(end - at)));
    };
    for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) {
      const TensorInfo tensor = info(i);
      // Offsets of detached data are those of the other file.
      const bool is_inside =
          &file == &state_.data() && tensor.data_offset >= range.begin && tensor.data_offset < range.end;
      if (!is_inside || !is_read_to_destination(tensor)) continue;
      add_to_memory(tensor.data_offset);
      const std::span<std::byte> target(into_(state_.index.in_file_order(i)),
                                        static_cast<std::size_t>(tensor.data_length));
      destination_.touch(target);
      add(tensor.data_offset, target);
      at = tensor.data_offset + tensor.data_length;
    }
    add_to_memory(range.end);
  }

  // Where a part is read to: its destination, or the piece's buffer at an offset that needs no bounce buffer.
  std::span<std::byte> target_of(const Piece& piece, std::span<std::byte> memory) const {
    if (piece.has_own_memory) return {destination_of(piece), piece.length};
    return placed(memory, file_offset_of(piece), piece.length);
  }

  void decrypt(const TensorInfo& tensor, const TensorHeader& header, std::span<std::byte> data) const {
    if (!state_.index.header.encrypted) return;
    const std::uint64_t crypt_at = tensor.header_offset + header.crypt_begin;
    if (!state_.keys.has_key()) {
      throw Error(ErrorCode::kCryptKeyMissing, "the file is encrypted, and no key was given", crypt_at);
    }
    if (!header.crypt.cipher) return;
    open_messages(*header.crypt.cipher, state_.keys.key_for(header.crypt, crypt_at), data, data, 0, tensor.data_offset);
  }

  void report(std::size_t index, const TensorHeader& header, std::span<const std::byte> header_bytes,
              std::optional<Sha256Digest> plain) {
    if (!done_) return;
    if (state_.index.tensors[index].meta()) plain.reset();
    const std::lock_guard lock(done_mutex_);
    done_({index, header, header_bytes, plain});
  }

  const ReaderState& state_;
  const ScanOptions options_;
  const std::size_t piece_limit_, run_limit_;
  Lanes<LargeTensor> lanes_;
  const std::size_t end_;
  // Whether neither encryption nor the I/O path dictates the parts of large tensors.
  const bool follows_destination_;
  // Whether the thread that reads a part of a large tensor also reads its header, which nothing else needs, instead of
  // the one that deals it out and holds the lock. Not in a group, which keeps bytes in the order of the file for those
  // that want them.
  const bool reads_headers_late_;
  // Whether one thread reads all pieces that begin in a huge page of the destination: memory that another core has just
  // cleared lies in its caches, and takes longer to fill.
  const bool keeps_pages_;
  HeaderPrefetch headers_;
  const std::function<void(const ScannedTensor&)> done_;
  std::mutex done_mutex_;
  const TargetOf into_;
  FirstTouch destination_;
};

}  // namespace tzmark
