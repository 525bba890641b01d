// Moves tensors from a source to the places that a plan gives them: hashed, encrypted, and read once.
#include "codec/write_records.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <atomic>

#include "bytes/cursor.h"
#include "codec/pipeline.h"
#include "codec/run.h"
#include "codec/secretbox.h"
#include "codec/tensor_digest.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// One tensor on its way into the file: its header, and the digests that fill it.
class Record {
 public:
  Record(const WritePlan& plan, std::size_t tensor, const TensorSource& source, bool verify_source,
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
    // Source and copy mostly hash alike; then hashing once serves both.
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

  // Any thread, any order.
  std::uint32_t read(std::uint64_t offset, std::span<std::byte> data) {
    stream_->read(offset, data);
    return want_crc32_ ? crc32(0, data) : 0;
  }

  // In order.
  void hash(std::span<const std::byte> data, std::uint32_t crc32_of_data) {
    digest_.add(data, crc32_of_data);
    if (source_digest_) source_digest_->add(data, crc32_of_data);
  }

  // When all data is hashed: checks the source, fills in the hashes.
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

  // Any thread, any order, at multiples of chunk_bytes, once hashed. In place; the MACs go into the header.
  void encrypt(std::uint64_t offset, std::span<std::byte> data) {
    if (!header_plan_.has_crypt) return;
    for (std::uint64_t chunk = offset / header_plan_.chunk_bytes; !data.empty(); ++chunk) {
      const std::size_t length = std::min<std::size_t>(header_plan_.chunk_bytes, data.size());
      const std::span<std::byte> mac = header().subspan(slots_.macs_at + chunk * kMacBytes, kMacBytes);
      seal_message(plan_.key(), message_nonce(nonce_, chunk), data.first(length), mac);
      data = data.subspan(length);
    }
  }

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
  LargeRecord(const WritePlan& plan, std::size_t tensor, const TensorSource& source, bool verify_source,
              std::size_t piece_size)
      : record(plan, tensor, source, verify_source, header),
        piece_bytes(piece_size),
        pieces_left(std::max<std::uint64_t>(1, message_count(record.info().data_length, piece_size))) {}

  std::vector<std::byte> header;
  Record record;
  const std::size_t piece_bytes;
  std::atomic<std::uint64_t> pieces_left;
};

class WriteJob {
 public:
  // Either a part of one large tensor, or a run of small ones.
  struct Piece {
    bool continues = false;
    std::size_t first = 0, count = 0;
    Run run;
    std::shared_ptr<LargeRecord> large;
    std::uint64_t offset = 0;
    std::size_t length = 0;
    std::uint32_t crc32 = 0;
  };

  WriteJob(File& file, File& data_file, const WritePlan& plan, const TensorSource& source, const WriteOptions& options)
      : file_(file), data_file_(data_file), plan_(plan), source_(source), options_(options) {
    const std::uint64_t unit = plan.encrypted() ? options.encrypt->chunk_bytes : 1;
    large_piece_bytes_ = static_cast<std::size_t>(options.piece_bytes / unit * unit);
  }

  bool next(Piece& piece) {
    if (large_) {
      const std::uint64_t at = piece_offset_ + large_piece_bytes_;
      if (at < large_->record.info().data_length) {
        take_part(piece, at);
        return true;
      }
      large_.reset();
      ++next_;
    }
    const std::size_t end = plan_.tensors().size();
    if (next_ == end) return false;
    piece = {};
    piece.first = next_;
    piece.run = Run(plan_.layout());
    while (next_ < end && piece.run.add(plan_[next_].header_offset, plan_.header_end(next_), plan_[next_].data_offset,
                                        plan_.tensors()[next_].data_length, options_.piece_bytes)) {
      ++next_;
      ++piece.count;
    }
    if (piece.count > 0) return true;
    large_ = std::make_shared<LargeRecord>(plan_, next_, source_, options_.verify_source, large_piece_bytes_);
    take_part(piece, 0);
    return true;
  }

  void produce(Piece& piece, std::span<std::byte> buffer) {
    if (piece.large) {
      piece.crc32 = piece.large->record.read(piece.offset, buffer.first(piece.length));
    } else {
      build_run(piece, buffer);
    }
  }

  void chain(Piece& piece, std::span<std::byte> buffer) {
    if (!piece.large) return;
    Record& record = piece.large->record;
    record.hash(buffer.first(piece.length), piece.crc32);
    if (piece.offset + piece.length == record.info().data_length) record.finish_hashes();
  }

  void consume(Piece& piece, std::span<std::byte> buffer) {
    if (piece.large) {
      const Placement& place = plan_[piece.first];
      LargeRecord& large = *piece.large;
      const std::span<std::byte> data = buffer.first(piece.length);
      large.record.encrypt(piece.offset, data);
      data_file_.write_at(place.data_offset + piece.offset, data);
      // Whoever writes the last part finds all MACs and hashes in place.
      if (large.pieces_left.fetch_sub(1) == 1) file_.write_at(place.header_offset, large.record.header());
    } else {
      const Run& run = piece.run;
      piece.length = run.bytes();
      file_.write_at(run.front().begin, buffer.first(run.front().bytes()));
      data_file_.write_at(run.data().begin, buffer.subspan(run.front().bytes(), run.data().bytes()));
    }
    if (options_.progress) options_.progress(piece.length);
  }

 private:
  void take_part(Piece& piece, std::uint64_t offset) {
    piece = {};
    piece.first = next_;
    piece.large = large_;
    piece.offset = piece_offset_ = offset;
    piece.continues = offset != 0;
    piece.length = static_cast<std::size_t>(
        std::min<std::uint64_t>(large_piece_bytes_, large_->record.info().data_length - offset));
  }

  void build_run(const Piece& piece, std::span<std::byte> buffer) {
    const Run& run = piece.run;
    // Between tensors there may be bytes that align the next one.
    std::ranges::fill(buffer.subspan(run.front().bytes(), run.data().bytes()), std::byte{0});
    std::vector<std::byte> header;
    for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) {
      header.clear();
      Record record(plan_, i, source_, options_.verify_source, header);
      const std::uint64_t length = record.info().data_length;
      const auto data =
          length == 0 ? std::span<std::byte>() : buffer.subspan(run.data_at(plan_[i].data_offset), length);
      record.hash(data, record.read(0, data));
      record.finish_hashes();
      record.encrypt(0, data);
      std::ranges::copy(header, buffer.begin() + static_cast<std::ptrdiff_t>(run.header_at(plan_[i].header_offset)));
    }
  }

  File& file_;
  File& data_file_;
  const WritePlan& plan_;
  const TensorSource& source_;
  const WriteOptions& options_;
  std::size_t large_piece_bytes_ = 0;
  std::size_t next_ = 0;
  std::shared_ptr<LargeRecord> large_;
  std::uint64_t piece_offset_ = 0;
};

}  // namespace

void write_records(File& file, File& data_file, const WritePlan& plan, const TensorSource& source,
                   const WriteOptions& options) {
  WriteJob job(file, data_file, plan, source, options);
  Pipeline(job, {options.threads, options.piece_bytes}, options.piece_bytes).run();
}

}  // namespace tzmark
