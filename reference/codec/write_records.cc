// The pipeline job that writes tensors: reads each once, hashes and encrypts it, and writes it where the plan says.
#include "codec/write_records.h"

#include <sodium.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "bytes/cursor.h"
#include "bytes/requires.h"
#include "codec/chain_stage.h"
#include "codec/lanes.h"
#include "codec/late_writes.h"
#include "codec/run.h"
#include "codec/secretbox.h"
#include "codec/shared_pages.h"
#include "codec/tensor_digest.h"
#include "tzmark/device_compute.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// One tensor being written: its header, and the digests that complete it.
class WrittenRecord {
 public:
  WrittenRecord(const WritePlan& plan, std::size_t tensor, const TensorSource& source, bool verify_source,
                std::vector<std::byte>& header)
      : plan_(plan),
        info_(plan.tensors()[tensor]),
        header_plan_(plan.header_plan(info_)),
        stream_(source.open(tensor)),
        header_(header) {
    header_begin_ = header_.size();
    slots_ = encode_tensor_header(info_.fields(), info_.module_index, header_plan_, plan.key_derivation(), header_);
    TensorHeader decoded;
    std::vector<std::byte> hashed;
    decode_tensor_header(this->header(), 0, {header_plan_.has_crypt, info_.wide_dimensions}, decoded);
    append_hashed_header(plan.layout(), this->header(), decoded, hashed);
    expected_ = verify_source ? stream_->expected() : nullptr;
    // Usually source and copy have the same hashed header, so that one digest serves both.
    source_differs_ = expected_ != nullptr && !std::ranges::equal(hashed, expected_->hashed_header());
    want_crc32_ = header_plan_.crc32 || (expected_ != nullptr && expected_->wants_crc32());
    const bool shared_sha = expected_ != nullptr && !source_differs_ && expected_->wants_sha256();
    digest_.begin(hashed, want_crc32_, header_plan_.sha256 || shared_sha);
    if (source_differs_) {
      source_digest_.emplace();
      source_digest_->begin(expected_->hashed_header(), expected_->wants_crc32(), expected_->wants_sha256());
    }
    if (header_plan_.has_crypt && info_.data_length > 0) {
      randombytes_buf(nonce_.data(), nonce_.size());
      std::ranges::copy(nonce_, this->header().begin() + static_cast<std::ptrdiff_t>(slots_.nonce_at));
    }
  }

  // The plaintext in the memory of the source; empty if it must be read.
  std::span<const std::byte> in_memory() const {
    const auto plaintext = stream_->in_memory();
    return plaintext.size() == info_.data_length ? plaintext : std::span<const std::byte>();
  }

  // The plaintext in GPU memory of the source; empty if there is none.
  ConstBuffer in_device_memory() const {
    const ConstBuffer plaintext = stream_->in_device_memory();
    return plaintext.size == info_.data_length ? plaintext : ConstBuffer();
  }
  // Whether the GPU can compute all wanted hashes. REQUIRES: in_device_memory() is not empty.
  bool can_be_hashed_on_device() const {
    if (digest_.wants_sha256() || source_digest_) return false;
    return !want_crc32_ || why_no_device_compute(device_of(in_device_memory())).empty();
  }

  // Any thread, any order.
  void read(std::uint64_t offset, std::span<std::byte> data) { stream_->read(offset, data); }
  std::uint32_t crc32_of(std::span<const std::byte> data) const { return want_crc32_ ? crc32(0, data) : 0; }
  // REQUIRES: can_be_hashed_on_device().
  std::uint32_t crc32_on_device_of(ConstBuffer data) const {
    return want_crc32_ ? crc32_on_device({&data, 1}).front() : 0;
  }

  // In order. Leaves SHA-256 to update_side_by_side.
  void hash(std::span<const std::byte> data, std::uint32_t crc32_of_data, std::vector<Sha256Part>& later) {
    digest_.add(data, crc32_of_data, later);
    if (source_digest_) source_digest_->add(data, crc32_of_data, later);
  }

  // REQUIRES: can_be_hashed_on_device().
  void hash(std::uint32_t crc32_of_data, std::uint64_t data_bytes) { digest_.add_crc32(crc32_of_data, data_bytes); }

  // Called when all data is hashed: checks the source's hashes, and stores the new ones in the header.
  void finish_hashes() {
    const Sha256Digest sha = digest_.finish_sha256();
    if (source_digest_) {
      expected_->check(source_digest_->crc32(), source_digest_->finish_sha256());
    } else if (expected_ != nullptr) {
      expected_->check(digest_.crc32(), sha);
    }
    if (header_plan_.crc32) store(header(), slots_.crc32_at, digest_.crc32());
    if (header_plan_.sha256) std::ranges::copy(sha, header().begin() + static_cast<std::ptrdiff_t>(slots_.sha256_at));
  }

  // Encrypts a part, possibly in place, and stores its MACs in the header. Any thread, any order. REQUIRES:
  // is_encrypted(), and offset is a multiple of chunk_bytes.
  void encrypt(std::uint64_t offset, std::span<const std::byte> plaintext, std::span<std::byte> ciphertext) {
    TZMARK_REQUIRES(is_encrypted() && offset % header_plan_.chunk_bytes == 0);
    std::uint64_t chunk = offset / header_plan_.chunk_bytes;
    for (std::size_t at = 0; at < plaintext.size(); ++chunk) {
      const std::size_t length = std::min<std::size_t>(header_plan_.chunk_bytes, plaintext.size() - at);
      const std::span<std::byte> mac = header().subspan(slots_.macs_at + chunk * kMacBytes, kMacBytes);
      seal_message(plan_.key(), message_nonce(nonce_, chunk), plaintext.subspan(at, length),
                   ciphertext.subspan(at, length), mac);
      at += length;
    }
  }

  bool is_encrypted() const { return header_plan_.has_crypt; }
  std::span<std::byte> header() { return std::span(header_).subspan(header_begin_); }
  const TensorInfo& info() const { return info_; }

 private:
  const WritePlan& plan_;
  const TensorInfo info_;
  const HeaderPlan header_plan_;
  std::unique_ptr<TensorStream> stream_;
  std::vector<std::byte>& header_;
  std::size_t header_begin_ = 0;
  HeaderSlots slots_;
  const ExpectedHashes* expected_ = nullptr;
  bool source_differs_ = false;
  bool want_crc32_ = false;
  TensorDigest digest_;
  std::optional<TensorDigest> source_digest_;
  std::array<std::byte, kNonceBytes> nonce_{};
};

// A tensor that is too large to share a piece with others.
struct LargeRecord {
  LargeRecord(const WritePlan& plan, std::size_t tensor, const TensorSource& source, const WriteOptions& options,
              const File& data_file)
      : record(plan, tensor, source, options.verify_source, header),
        data_offset(plan[tensor].data_offset),
        piece_bytes(options.piece_bytes),
        part_align_bytes(data_file.transfer_align_bytes() > 1 ? kPartAlignBytes : kHugePageBytes),
        chunk_bytes(record.is_encrypted() ? static_cast<std::size_t>(options.encrypt->chunk_bytes) : 0),
        on_device(record.is_encrypted() || !data_file.moves_device_memory() ? ConstBuffer()
                                                                            : record.in_device_memory()),
        hashed_on_device(on_device.size > 0 && record.can_be_hashed_on_device()),
        steps_left(record.info().data_length + 1) {}

  std::uint64_t data_length() const { return record.info().data_length; }
  std::size_t header_bytes() const { return header.size(); }
  std::size_t part_bytes(std::uint64_t offset, std::size_t most) const {
    if (chunk_bytes != 0) return most / chunk_bytes * chunk_bytes;
    return aligned_part_bytes(data_offset + offset, most,
                              std::min(part_align_bytes, most / kPartAlignBytes * kPartAlignBytes));
  }

  // Whether exactly two parts share a page: the part that begins at offset and the previous one. REQUIRES: encrypted.
  bool shares_page(std::uint64_t offset) const {
    const std::uint64_t length = record.info().data_length;
    if (offset == 0 || offset >= length) return false;
    const std::uint64_t below = (data_offset + offset) % kPartAlignBytes;
    const std::uint64_t part = part_bytes(offset, piece_bytes);
    return below != 0 && below <= part && kPartAlignBytes - below <= std::min(part, length - offset);
  }

  Chain chain;
  std::vector<std::byte> header;
  WrittenRecord record;
  const std::uint64_t data_offset;
  const std::size_t piece_bytes;
  // The kernel allocates the page cache of a write in blocks as large as the alignment of the write in the file allows.
  // Larger blocks make this write faster, and reads that find them in the cache.
  const std::size_t part_align_bytes;
  const std::size_t chunk_bytes;  // of encryption; 0 if not encrypted
  const ConstBuffer on_device;    // written from GPU memory; empty if written from host memory
  const bool hashed_on_device;    // then the host needs no copy
  // Until the header is complete: bytes that are not yet ready to be written, for they may need MACs, and one for the
  // hashes.
  std::atomic<std::uint64_t> steps_left;
  SharedPages shared_pages;
};

class WriteJob final : public RecordWriter {
 public:
  struct Piece : TensorPiece<LargeRecord> {
    Run run;
    std::uint32_t crc32 = 0;
    std::uint64_t write_begin = 0, write_end = 0;  // file offsets, of a part of a large tensor
  };

  WriteJob(File& file, File& data_file, const WritePlan& plan, const TensorSource& source, const WriteOptions& options,
           std::size_t first, std::size_t end)
      : file_(file),
        data_file_(data_file),
        late_(file),
        late_data_(data_file),
        plan_(plan),
        source_(source),
        options_(options),
        first_(first),
        end_(end),
        lanes_(first, end, PipelineOptions{.threads = options.threads}.thread_count(), options.sha256,
               {part_bytes_of(options, data_file), lane_part_bytes_of(options, data_file), open_streams_max(),
                streams_of(options, data_file)},
               critical_of(plan, options, first, end)) {}

  void write_pages() override {
    std::uint64_t work_bytes = 0;
    for (std::size_t i = first_; i < end_; ++i) {
      work_bytes += plan_.header_end(i) - plan_[i].header_offset + plan_.tensors()[i].data_length;
    }
    Pipeline(*this,
             {.threads = options_.threads,
              // Only messages of encryption need pieces that are larger than parts.
              .piece_bytes =
                  options_.encrypt ? options_.piece_bytes : run_bytes_max(options_.piece_bytes, options_.part_bytes),
              .part_bytes = lanes_.lane_part_bytes(),
              .queue_depth = options_.queue_depth,
              .reads = false,
              .pins_for = source_device(),
              .holds_secrets = options_.encrypt.has_value()},
             work_bytes, &data_file_)
        .run();
  }

  // The GPU that the source is on; nothing if it is in host memory.
  std::optional<int> source_device() const {
    if (!source_.is_on_device()) return std::nullopt;
    for (std::size_t i = first_; i < end_; ++i) {
      if (plan_.tensors()[i].data_length == 0) continue;
      const ConstBuffer memory = source_.open(i)->in_device_memory();
      if (memory.size > 0) return device_of(memory);
    }
    return std::nullopt;
  }

  bool next(Piece& piece, const Position* before) {
    piece.run = Run(plan_.layout());
    const auto add_to_run = [&](std::size_t i) {
      return piece.run.add(plan_[i].header_offset, plan_.header_end(i), plan_[i].data_offset,
                           plan_.tensors()[i].data_length, run_bytes_max(options_.piece_bytes, options_.part_bytes));
    };
    const auto open = [&](std::size_t i) {
      return std::make_shared<LargeRecord>(plan_, i, source_, options_, data_file_);
    };
    if (!lanes_.next(piece, before, add_to_run, open)) return false;
    if (!piece.large) return true;
    const WrittenRecord& record = piece.large->record;
    const auto in_memory = record.in_memory();
    piece.has_own_memory =
        piece.large->hashed_on_device ||
        (!record.is_encrypted() && !in_memory.empty() &&
         moves_directly(data_file_, piece.large->data_offset + piece.offset, in_memory.data() + piece.offset));
    // Encryption in place destroys the plaintext, which is then hashed first.
    piece.chains_late = !record.is_encrypted() || !in_memory.empty();
    return true;
  }

  std::size_t reads(Piece&, std::span<std::byte>, FileTransfers&) { return 0; }

  void produce(Piece& piece, std::span<std::byte> memory) {
    if (!piece.large) return;  // the chain stage has all of a run
    WrittenRecord& record = piece.large->record;
    if (piece.large->hashed_on_device) {
      // Of the whole tensor, because a call takes longer than the kernel of a piece.
      if (piece.offset == 0) piece.crc32 = record.crc32_on_device_of(piece.large->on_device);
      return;
    }
    if (!reads_in_place(piece)) record.read(piece.offset, placed_part(piece, memory));
    piece.crc32 = record.crc32_of(plaintext_of(piece, memory));
  }

  std::size_t streams_max() const { return lanes_.streams_max(); }
  std::size_t streams_wanted() const { return lanes_.streams_wanted(); }

  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving& keep_moving) {
    ChainStage(*this, steps, keep_moving).run();
  }

  // What ChainStage calls.
  struct Small {
    std::vector<std::byte> header;
    std::optional<WrittenRecord> record;
    std::span<std::byte> data;
    std::span<std::byte> header_at;
  };
  void open_small(Small& small, const ChainStep<Piece>& step, std::size_t tensor, std::vector<Sha256Part>& parts) {
    const Run& run = step.piece->run;
    const std::span<std::byte> memory = placed(step.memory, run.front().begin, run.bytes());
    if (tensor == step.piece->first) {
      // There may be alignment gaps between tensors.
      std::ranges::fill(memory.subspan(run.front().bytes(), run.data().bytes()), std::byte{0});
    }
    small.header.clear();
    WrittenRecord& record = small.record.emplace(plan_, tensor, source_, options_.verify_source, small.header);
    const std::uint64_t length = record.info().data_length;
    small.data = length == 0 ? std::span<std::byte>() : memory.subspan(run.data_at(plan_[tensor].data_offset), length);
    record.read(0, small.data);
    record.hash(small.data, record.crc32_of(small.data), parts);
    small.header_at = memory.subspan(run.header_at(plan_[tensor].header_offset), small.header.size());
  }
  void finish_small(Small& small, const ChainStep<Piece>&) {
    small.record->finish_hashes();
    if (small.record->is_encrypted()) small.record->encrypt(0, small.data, small.data);
    std::ranges::copy(small.header, small.header_at.begin());
  }
  void add_part(const ChainStep<Piece>& step, std::vector<Sha256Part>& parts) {
    const Piece& piece = *step.piece;
    WrittenRecord& record = piece.large->record;
    if (piece.large->hashed_on_device) {
      if (piece.offset == 0) record.hash(piece.crc32, record.info().data_length);
    } else {
      record.hash(plaintext_of(piece, step.memory), piece.crc32, parts);
    }
  }
  void finish_part(const ChainStep<Piece>& step) {
    WrittenRecord& record = step.piece->large->record;
    if (step.piece->offset + step.piece->length < record.info().data_length) return;
    record.finish_hashes();
    finish_steps(*step.piece, 1);
  }

  void consume(Piece& piece, std::span<std::byte> memory) {
    if (piece.large) {
      LargeRecord& large = *piece.large;
      piece.write_begin = large.data_offset + piece.offset;
      piece.write_end = piece.write_begin + piece.length;
      if (large.record.is_encrypted()) {
        large.record.encrypt(piece.offset, plaintext_of(piece, memory), placed_part(piece, memory));
        if (data_file_.transfer_align_bytes() > 1) share_pages(piece, memory);
      }
      // An empty tensor has a single step.
      if (piece.length > 0) finish_steps(piece, piece.length);
    }
    if (options_.progress) options_.progress(piece.large ? piece.length : piece.run.bytes());
  }

  std::size_t writes(Piece& piece, std::span<std::byte> memory, FileTransfers& transfers) {
    if (piece.large) {
      plan_write(transfers[0], Part::kData, piece.write_begin, written_data(piece, memory));
      return 1;
    }
    const Run& run = piece.run;
    memory = placed(memory, run.front().begin, run.bytes());
    plan_write(transfers[0], Part::kHead, run.front().begin, memory.first(run.front().bytes()));
    plan_write(transfers[1], Part::kData, run.data().begin, memory.subspan(run.front().bytes()));
    return 2;
  }

  void write_rest() override {
    late_.flush();
    late_data_.flush();
  }

 private:
  static std::vector<std::size_t> critical_of(const WritePlan& plan, const WriteOptions& options, std::size_t first,
                                              std::size_t end) {
    if (!options.sha256) return {};
    return critical_tensors(first, end, PipelineOptions{.threads = options.threads}.thread_count(),
                            options.piece_bytes + 1, [&](std::size_t i) { return plan.tensors()[i].data_length; });
  }

  // Encryption leaves the cores no time for slower kernels.
  static std::size_t streams_of(const WriteOptions& options, const File& data_file) {
    if (!options.sha256) return 1;
    return options.encrypt ? sha256_lanes() : streams_beside(data_file);
  }

  static std::size_t part_bytes_of(const WriteOptions& options, const File& data_file) {
    // The messages of encryption are not divided.
    if (options.encrypt) return options.piece_bytes;
    return part_bytes_for(data_file, options.piece_bytes, options.part_bytes);
  }

  // Smaller transfers let the device begin before all lanes of a core are through: measured on an NVMe disk, a quarter
  // gains a third with uring-direct. Where calls block, each transfer costs more than that.
  static std::size_t lane_part_bytes_of(const WriteOptions& options, const File& data_file) {
    const std::size_t part = part_bytes_of(options, data_file);
    if (options.encrypt || !data_file.is_asynchronous()) return part;
    return std::min(part, std::max(options.piece_bytes / 4, std::min<std::size_t>(options.piece_bytes, 64 << 10)));
  }

  // Writes the header of a large tensor when it has all MACs and hashes.
  void finish_steps(const Piece& piece, std::uint64_t steps) {
    LargeRecord& large = *piece.large;
    if (large.steps_left.fetch_sub(steps) != steps) return;
    late_.keep(plan_[piece.first].header_offset, large.record.header());
  }

  enum class Part { kHead, kData };
  void plan_write(FileTransfer& transfer, Part part, std::uint64_t offset, ConstBuffer bytes) {
    transfer.file = part == Part::kHead ? &file_ : &data_file_;
    bytes = (part == Part::kHead ? late_ : late_data_).keep_edges(offset, bytes);
    transfer.transfer.offset = offset;
    // A write does not modify the memory.
    transfer.transfer.memory = {const_cast<std::byte*>(bytes.data), bytes.size, bytes.kind};
  }

  // The bytes to write of a part of a large tensor.
  static ConstBuffer written_data(const Piece& piece, std::span<std::byte> memory) {
    if (piece.large->on_device.size > 0) return piece.large->on_device.sub(piece.offset, piece.length);
    if (piece.large->record.is_encrypted()) return in_memory(piece, memory);
    return plaintext_of(piece, memory);
  }

  // Whether a part of a large tensor is used directly from the memory of the source.
  static bool reads_in_place(const Piece& piece) {
    const WrittenRecord& record = piece.large->record;
    return piece.has_own_memory || (record.is_encrypted() && !record.in_memory().empty());
  }
  static std::span<std::byte> placed_part(const Piece& piece, std::span<std::byte> memory) {
    return placed(memory, piece.large->data_offset + piece.offset, piece.length);
  }
  static std::span<const std::byte> plaintext_of(const Piece& piece, std::span<std::byte> memory) {
    if (!reads_in_place(piece)) return placed_part(piece, memory);
    return piece.large->record.in_memory().subspan(piece.offset, piece.length);
  }

  // The position of a file offset in a buffer that starts with the first page of the piece.
  static std::size_t place_in_memory(const Piece& piece, std::uint64_t file_offset) {
    const std::uint64_t begin = piece.large->data_offset + piece.offset;
    return static_cast<std::size_t>(file_offset - (begin - begin % kPartAlignBytes));
  }
  // The bytes to write of an encrypted part.
  static std::span<const std::byte> in_memory(const Piece& piece, std::span<std::byte> memory) {
    return memory.subspan(place_in_memory(piece, piece.write_begin),
                          static_cast<std::size_t>(piece.write_end - piece.write_begin));
  }

  // Lets one of two parts write a page that they share.
  static void share_pages(Piece& piece, std::span<std::byte> memory) {
    LargeRecord& large = *piece.large;
    const auto complete = [&](std::uint64_t boundary, SharedPages::Half mine) {
      const std::size_t page = place_in_memory(piece, boundary) / kPartAlignBytes * kPartAlignBytes;
      return large.shared_pages.complete(boundary, mine, memory.subspan(page).first<kPartAlignBytes>());
    };
    const std::uint64_t begin = piece.write_begin;
    const std::uint64_t end = piece.write_end;
    if (large.shares_page(piece.offset)) {
      piece.write_begin -= begin % kPartAlignBytes;
      if (!complete(begin, SharedPages::Half::kUpper)) piece.write_begin += kPartAlignBytes;
    }
    if (large.shares_page(piece.offset + piece.length)) {
      piece.write_end -= end % kPartAlignBytes;
      if (complete(end, SharedPages::Half::kLower)) piece.write_end += kPartAlignBytes;
    }
  }

  File& file_;
  File& data_file_;
  LateWrites late_, late_data_;
  const WritePlan& plan_;
  const TensorSource& source_;
  const WriteOptions& options_;
  const std::size_t first_, end_;
  Lanes<LargeRecord> lanes_;
};

}  // namespace

std::unique_ptr<RecordWriter> make_record_writer(File& file, File& data_file, const WritePlan& plan,
                                                 const TensorSource& source, const WriteOptions& options,
                                                 std::size_t first, std::size_t end) {
  return std::make_unique<WriteJob>(file, data_file, plan, source, options, first, end);
}

void write_records(File& file, File& data_file, const WritePlan& plan, const TensorSource& source,
                   const WriteOptions& options) {
  WriteJob job(file, data_file, plan, source, options, 0, plan.tensors().size());
  job.write_pages();
  job.write_rest();
}

}  // namespace tzmark
