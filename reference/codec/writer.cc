// Writing: plan every offset, stream the data through the pipeline, fill in each header when its tensor is through.
#include "tzmark/writer.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "bytes/cursor.h"
#include "codec/pipeline.h"
#include "codec/run.h"
#include "codec/secretbox.h"
#include "codec/split_pair.h"
#include "codec/tensor_digest.h"
#include "format/crypt_block.h"
#include "format/name_tree.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::size_t kIndexBlockBytes = 1 << 20;

struct Placement {
  std::uint64_t header_offset, data_offset;
};

// Everything about the file that is known before its data is.
class WritePlan {
 public:
  WritePlan(const TensorTable& tensors, const WriteOptions& options) : tensors_(tensors), options_(options) {
    if (tensors.size() == 0) throw Error(ErrorCode::kHeaderCount, "a file holds at least one tensor");
    PipelineOptions{options.threads, options.piece_bytes}.check();
    choose_layout();
    check_split();
    check_hashes();
    check_names();
    prepare_key();
    place();
  }

  Layout layout() const { return layout_; }
  bool encrypted() const { return options_.encrypt.has_value(); }
  const TensorTable& tensors() const { return tensors_; }
  const Placement& operator[](std::size_t i) const { return placements_[i]; }
  bool split() const { return options_.split; }
  // Where the header ends at the latest.
  std::uint64_t header_end(std::size_t i) const {
    if (!headers_first(layout_)) return placements_[i].data_offset;
    return i + 1 < placements_.size() ? placements_[i + 1].header_offset : headers_end_;
  }
  // Of both files of a split pair.
  std::uint64_t file_bytes() const {
    return terminator_at_ + kTerminatorBytes + (options_.split ? segments_.headers_end : 0);
  }
  const Key& key() const { return key_; }
  const std::optional<KeyDerivation>& key_derivation() const { return key_derivation_; }

  HeaderPlan header_plan(const TensorInfo& tensor) const {
    HeaderPlan plan;
    plan.sha256 = options_.sha256;
    // The CRC32 of a plaintext would tell about it, so tensors that have something to hide carry none. In the
    // headers-first layouts no tensor of an encrypted file does.
    plan.crc32 = options_.crc32 && (!encrypted() || (tensor.meta() && !headers_first(layout_)));
    plan.has_crypt = encrypted();
    plan.has_key_derivation = key_derivation_.has_value();
    plan.chunk_bytes = encrypted() ? options_.encrypt->chunk_bytes : 0;
    return plan;
  }

  // Everything but headers and data.
  void write_frame(File& file, File& data_file) const {
    FileHeader header;
    header.data_version = data_version(layout_);
    header.encrypted = encrypted();
    header.split = options_.split;
    header.pair_number = pair_number_;
    header.tensor_count = tensors_.size();
    for (std::size_t i = 0; i < tensors_.size(); ++i) header.total_data_bytes += tensors_[i].data_length;
    std::vector<std::byte> block;
    block.reserve(kIndexBlockBytes + kIndexEntryBytesMax);
    ByteWriter writer(block);
    writer.bytes(encode_file_header(header));
    if (layout_ == Layout::kV5Segments) writer.bytes(encode_layout_section(segments_));
    // Where the entries have to fill the index, the room behind them is not counted.
    writer.integer(headers_first(layout_) ? entry_bytes_ : index_bytes_);
    std::uint64_t position = 0;
    const auto flush = [&] {
      file.write_at(position, std::span<const std::byte>(block));
      position += block.size();
      block.clear();
    };
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      encode_index_entry(writer, layout_, tensors_[i].fields(), placements_[i].header_offset - segments_.headers_begin,
                         placements_[i].data_offset - segments_.data_begin);
      if (block.size() >= kIndexBlockBytes) flush();
    }
    const auto zeros_to = [&](std::uint64_t end) {
      for (std::uint64_t rest = end - position - block.size(); rest > 0;) {
        const auto zeros = static_cast<std::size_t>(std::min<std::uint64_t>(rest, kIndexBlockBytes));
        writer.zeros(zeros);
        rest -= zeros;
        flush();
      }
      flush();
    };
    zeros_to(placements_[0].header_offset);
    if (headers_first(layout_)) {
      position = headers_end_;
      zeros_to(options_.split ? segments_.headers_end : data_begin_);
    }
    if (options_.split) write_split_data_header(pair_number_, data_file);
    const std::array<std::byte, kTerminatorBytes> terminator{};
    data_file.write_at(terminator_at_, std::span<const std::byte>(terminator));
  }

 private:
  void choose_layout() {
    std::string reason;
    const Layout lowest = lowest_layout(tensors_, encrypted(), &reason);
    layout_ = options_.layout.value_or(lowest);
    if (lowest == Layout::kV5LongDims ? layout_ != lowest : layout_ < lowest) {
      throw Error(ErrorCode::kHeaderLowestVersion, fmt::format("layout {} cannot hold this: {} {} or later",
                                                               layout_name(layout_), reason, layout_name(lowest)));
    }
    if (layout_ == Layout::kV3 && !encrypted()) {
      throw Error(ErrorCode::kHeaderLowestVersion,
                  "layout v3 is always encrypted, and no key was given to encrypt with");
    }
  }

  void check_split() {
    if (!options_.split) return;
    if (layout_ != Layout::kV5Segments) {
      throw Error(ErrorCode::kUsage, fmt::format("only v5-segments can be split, and not {}", layout_name(layout_)));
    }
    randombytes_buf(&pair_number_, sizeof pair_number_);
  }

  void check_hashes() const {
    if (!options_.sha256 && (encrypted() || !options_.crc32)) {
      throw Error(ErrorCode::kUsage, "tensors need a hash: SHA-256 is the only one of an encrypted tensor");
    }
  }

  void check_names() const {
    NameTree names;
    for (std::size_t i = 0; i < tensors_.size(); ++i) names.add(tensors_[i].name, 0);
  }

  void prepare_key() {
    if (!encrypted()) return;
    if (sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium cannot be initialised");
    const EncryptOptions& encrypt = *options_.encrypt;
    if (encrypt.chunk_bytes < kChunkSizeMin || encrypt.chunk_bytes % kChunkSizeStep != 0 ||
        encrypt.chunk_bytes > options_.piece_bytes) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("encryption chunks of {} bytes: a multiple of {} from {} to {} is wanted",
                              encrypt.chunk_bytes, kChunkSizeStep, kChunkSizeMin, options_.piece_bytes));
    }
    if (const Key* key = std::get_if<Key>(&encrypt.key)) {
      key_ = Key(std::span<const std::byte, kKeyBytes>(reinterpret_cast<const std::byte*>(key->data()), kKeyBytes));
      return;
    }
    key_derivation_.emplace();
    key_derivation_->opslimit = encrypt.opslimit;
    key_derivation_->memlimit = encrypt.memlimit;
    randombytes_buf(key_derivation_->salt.data(), key_derivation_->salt.size());
    // A file that our own reader would refuse by default is of no use to anybody.
    key_ = derive_key(std::get<Passphrase>(encrypt.key), *key_derivation_, KeyDerivationLimits{});
  }

  void place() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) entry_bytes_ += index_entry_bytes(layout_, tensors_[i].fields());
    index_bytes_ = std::max(entry_bytes_, options_.index_bytes_min);
    placements_.resize(tensors_.size());
    if (headers_first(layout_)) {
      place_headers_first();
    } else {
      place_records();
    }
  }

  void place_records() {
    std::uint64_t position = kClassicIndexBegin + index_bytes_;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const TensorInfo tensor = tensors_[i];
      placements_[i].header_offset = position;
      placements_[i].data_offset = position + tensor_header_bytes(tensor.fields(), header_plan(tensor));
      position = advance(placements_[i].data_offset, tensor.data_length);
    }
    terminator_at_ = position;
  }

  void place_headers_first() {
    const bool segments = layout_ == Layout::kV5Segments;
    std::uint64_t position = kClassicIndexBegin + index_bytes_;
    if (segments) {
      position = align(kLayoutSectionEnd + sizeof(std::uint64_t) + index_bytes_, kSegmentEndUnit);
      segments_.metadata_begin = kLayoutSectionEnd;
      segments_.metadata_end = segments_.headers_begin = position;
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      placements_[i].header_offset = position;
      position = advance(position, tensor_header_bytes(tensors_[i].fields(), header_plan(tensors_[i])));
    }
    headers_end_ = position;
    data_begin_ = position = align(position, kSegmentEndUnit);
    if (segments) segments_.headers_end = position;
    if (options_.split) data_begin_ = position = sizeof(SplitDataHeaderWire);
    if (segments) segments_.data_begin = position;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      // All begins of data_begin_ are multiples of 8, so that aligned to the file is aligned to the segment.
      if (segments) position = align(position, kSegmentDataUnit);
      placements_[i].data_offset = position;
      position = advance(position, tensors_[i].data_length);
    }
    terminator_at_ = position;
  }

  static std::uint64_t align(std::uint64_t position, std::uint64_t unit) { return (position + unit - 1) / unit * unit; }

  static std::uint64_t advance(std::uint64_t position, std::uint64_t bytes) {
    // Some room is left for what follows, so that no sum here wraps.
    if (((position + bytes) >> 62) != 0) throw Error(ErrorCode::kUsage, "the file would have 2^62 bytes or more");
    return position + bytes;
  }

  const TensorTable& tensors_;
  const WriteOptions& options_;
  Layout layout_ = Layout::kV1;
  Key key_;
  std::optional<KeyDerivation> key_derivation_;
  std::vector<Placement> placements_;
  Segments segments_;  // zeros but in v5-segments, so that offsets of the other layouts are relative to the file
  std::uint64_t entry_bytes_ = 0;
  std::uint64_t index_bytes_ = 0;
  std::uint64_t headers_end_ = 0, data_begin_ = 0;  // of the headers-first layouts
  std::uint64_t terminator_at_ = 0;
  std::uint64_t pair_number_ = 0;
};

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

class MemoryStream final : public TensorStream {
 public:
  explicit MemoryStream(ConstBuffer data) : data_(data) {}
  void read(std::uint64_t offset, MutableBuffer out) override {
    if (offset > data_.size || out.size > data_.size - offset) {
      throw Error(ErrorCode::kUsage, "the memory of a tensor is smaller than its shape says");
    }
    if (out.size > 0) std::memcpy(out.data, data_.data + offset, out.size);
  }

 private:
  ConstBuffer data_;
};

}  // namespace

Layout lowest_layout(const TensorTable& tensors, bool encrypted, std::string* reason) {
  Layout lowest = Layout::kV1;
  const auto raise = [&](Layout needed, const auto& why) {
    if (needed <= lowest) return;
    lowest = needed;
    if (reason != nullptr) *reason = why();
  };
  if (encrypted) raise(Layout::kV3, [] { return std::string("encryption needs"); });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo tensor = tensors[i];
    if (tensor.dtype.opaque) {
      raise(Layout::kV2, [&] {
        return fmt::format("'{}' is of dtype {}, which needs", display_path(tensor.path()), tensor.dtype.name);
      });
    }
    if (tensor.meta()) {
      raise(Layout::kV4,
            [&] { return fmt::format("'{}' is a meta tensor, which needs", display_path(tensor.path())); });
    }
    if (tensor.wide_dimensions) {
      raise(Layout::kV5LongDims, [&] {
        return fmt::format("'{}' has a dimension of 2^32 or more, which needs", display_path(tensor.path()));
      });
    }
  }
  return lowest;
}

TensorTable writable_table(const Reader& reader) {
  std::vector<std::uint16_t> module_indices(reader.tensors().size());
  reader.check_headers([&](std::size_t i, const TensorHeader& header, std::span<const std::byte>) {
    module_indices[i] = header.module_index;
  });
  TensorTable table;
  for (std::size_t i = 0; i < module_indices.size(); ++i) {
    const TensorInfo tensor = reader.tensors()[i];
    table.add(tensor.path(), tensor.kind, tensor.dtype, tensor.shape, tensor.meta(), module_indices[i]);
  }
  return table;
}

WriteResult write_tensors(File& file, const TensorTable& tensors, const TensorSource& source,
                          const WriteOptions& options, File* data_file) {
  const WritePlan plan(tensors, options);
  if (plan.split() != (data_file != nullptr)) throw Error(ErrorCode::kUsage, "a split pair is written to two files");
  File& data = data_file != nullptr ? *data_file : file;
  plan.write_frame(file, data);
  WriteJob job(file, data, plan, source, options);
  Pipeline(job, {options.threads, options.piece_bytes}, options.piece_bytes).run();
  return {plan.layout(), plan.file_bytes()};
}

WriteResult write_file(const std::string& file_name, const TensorTable& tensors, const TensorSource& source,
                       const WriteOptions& options) {
  AtomicFile output(file_name, options.io_path, options.existing);
  std::optional<AtomicFile> data_output;
  if (options.split) data_output.emplace(split_data_file_name(file_name), options.io_path, options.existing);
  const WriteResult result =
      write_tensors(output.file(), tensors, source, options, data_output ? &data_output->file() : nullptr);
  // A head without its data is of no use, so that it comes last.
  if (data_output) data_output->commit();
  output.commit();
  return result;
}

std::string split_data_file_name(const std::string& head_file_name) { return head_file_name + ".data"; }

std::unique_ptr<TensorStream> MemorySource::open(std::size_t tensor) const {
  return std::make_unique<MemoryStream>(data_[tensor]);
}

}  // namespace tzmark
