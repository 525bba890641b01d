// Planning a file, and writing everything but headers and data.
#include "codec/write_plan.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

#include "bytes/cursor.h"
#include "codec/block_writer.h"
#include "codec/detached_data.h"
#include "codec/pipeline.h"
#include "format/crypt_block.h"
#include "format/name_tree.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

std::uint64_t align(std::uint64_t position, std::uint64_t unit) { return (position + unit - 1) / unit * unit; }

std::uint64_t advance(std::uint64_t position, std::uint64_t bytes) {
  // The limit leaves room for what follows, so that no sum here overflows.
  if ((bytes >> 62) != 0 || ((position + bytes) >> 62) != 0)
    throw Error(ErrorCode::kUsage, "the file would have 2^62 bytes or more");
  return position + bytes;
}

}  // namespace

WritePlan::WritePlan(const TensorTable& tensors, const WriteOptions& options, const Extension* extension)
    : tensors_(tensors), options_(options), extension_(extension) {
  if (tensors.size() == 0) throw Error(ErrorCode::kHeaderCount, "a file holds at least one tensor");
  PipelineOptions{.threads = options.threads,
                  .piece_bytes = options.piece_bytes,
                  .part_bytes = options.part_bytes,
                  .queue_depth = options.queue_depth}
      .check();
  choose_layout();
  check_detached_data_option();
  check_hashes();
  check_names();
  prepare_key();
  place();
}

std::uint64_t WritePlan::header_end(std::size_t i) const {
  if (!headers_first(layout_)) return placements_[i].data_offset;
  return i + 1 < placements_.size() ? placements_[i + 1].header_offset : headers_end_;
}

std::uint64_t WritePlan::data_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) bytes += tensors_[i].data_length;
  return bytes;
}

std::uint64_t WritePlan::file_bytes() const {
  return terminator_at_ + kTerminatorBytes + (options_.detached_data ? segments_.headers_end : 0);
}

HeaderPlan WritePlan::header_plan(const TensorInfo& tensor) const {
  HeaderPlan plan;
  plan.sha256 = options_.sha256;
  // A CRC32 would reveal information about the plaintext, so encrypted tensors have none. In the headers-first layouts
  // no tensor of an encrypted file has one.
  plan.crc32 = options_.crc32 && (!encrypted() || (tensor.meta() && !headers_first(layout_)));
  plan.has_crypt = encrypted();
  plan.has_key_derivation = key_derivation_.has_value();
  plan.chunk_bytes = encrypted() ? options_.encrypt->chunk_bytes : 0;
  return plan;
}

void WritePlan::write_frame(File& file, File& data_file) const {
  FileHeader header;
  header.data_version = data_version(layout_);
  header.encrypted = encrypted();
  header.layout_flag = traits_of(layout_).feature_flag;
  header.detached_data = options_.detached_data;
  header.pair_number = pair_number_;
  header.tensor_count = tensors_.size();
  header.total_data_bytes = data_bytes();
  BlockWriter out(file, 0);
  out.bytes(encode_file_header(header));
  if (has_segments(layout_)) out.bytes(encode_layout_section(segments_));
  // In layouts whose entries must fill the index, its length excludes the reserved room.
  out.integer(headers_first(layout_) ? entry_bytes_ : index_bytes_);
  const std::uint64_t entries_at = out.position();
  out.flush();
  write_entries(file, entries_at);

  BlockWriter zeros(file, entries_at + entry_bytes_);
  zeros.zeros_to(placements_[0].header_offset);
  if (headers_first(layout_)) {
    BlockWriter room(file, headers_end_);
    room.zeros_to(options_.detached_data ? segments_.headers_end : data_begin_);
  }
  if (options_.detached_data) write_detached_data_header(pair_number_, data_file);
  write_terminator(data_file);
}

void WritePlan::write_entries(File& file, std::uint64_t offset) const {
  BlockWriter out(file, offset);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    encode_index_entry(out.writer(), layout_, tensors_[i].fields(),
                       placements_[i].header_offset - segments_.headers_begin,
                       placements_[i].data_offset - segments_.data_begin);
    out.flush_if_full();
  }
  out.flush();
}

void WritePlan::write_terminator(File& data_file) const {
  const std::array<std::byte, kTerminatorBytes> terminator{};
  data_file.write_at(terminator_at_, std::span<const std::byte>(terminator));
}

void WritePlan::choose_layout() {
  std::string reason;
  const Layout lowest = lowest_layout(tensors_, encrypted(), &reason);
  layout_ = options_.layout.value_or(lowest);
  if (!can_hold(layout_, lowest)) {
    throw Error(ErrorCode::kHeaderLowestVersion,
                fmt::format("layout {} cannot hold this: {} {}{}", layout_name(layout_), reason, layout_name(lowest),
                            has_entry_versions(lowest) ? " or v5-long-dims" : " or later"));
  }
  if (traits_of(layout_).must_be_encrypted && !encrypted()) {
    throw Error(ErrorCode::kHeaderLowestVersion,
                fmt::format("layout {} is always encrypted, and no encryption key was given", layout_name(layout_)));
  }
}

void WritePlan::check_detached_data_option() {
  if (!options_.detached_data) return;
  if (!has_segments(layout_)) {
    throw Error(ErrorCode::kUsage,
                fmt::format("only v5-segments can have detached data, not {}", layout_name(layout_)));
  }
  if (sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium failed to initialize");
  randombytes_buf(&pair_number_, sizeof pair_number_);
}

void WritePlan::check_hashes() const {
  if (!options_.unhashed && !options_.sha256 && (encrypted() || !options_.crc32)) {
    throw Error(ErrorCode::kUsage, "tensors need a hash, and SHA-256 is the only one for encrypted tensors");
  }
}

void WritePlan::check_names() const {
  NameTree names;
  for (std::size_t i = 0; i < tensors_.size(); ++i) names.add(tensors_[i].name, 0);
}

void WritePlan::prepare_key() {
  if (!encrypted()) return;
  if (sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium failed to initialize");
  const EncryptOptions& encrypt = *options_.encrypt;
  if (encrypt.chunk_bytes < kChunkSizeMin || encrypt.chunk_bytes % kChunkSizeStep != 0 ||
      encrypt.chunk_bytes > options_.piece_bytes) {
    throw Error(ErrorCode::kUsage,
                fmt::format("encryption chunks of {} bytes: must be a multiple of {} from {} to {}",
                            encrypt.chunk_bytes, kChunkSizeStep, kChunkSizeMin, options_.piece_bytes));
  }
  if (const Key* key = std::get_if<Key>(&encrypt.key)) {
    key_.emplace(key->bytes());
    return;
  }
  const Passphrase& passphrase = std::get<Passphrase>(encrypt.key);
  // What an empty template variable may produce: white space, a NUL byte, a byte order mark.
  constexpr std::string_view kBlanks("\t\n\v\f\r \0\xEF\xBB\xBF", 10);
  if (passphrase.text().find_first_not_of(kBlanks) == std::string_view::npos) {
    throw Error(ErrorCode::kCryptBlankPassphrase,
                "the encryption passphrase is empty or blank: anyone could decrypt the file");
  }
  if (extension_ != nullptr && extension_->key_derivation) {
    key_derivation_ = extension_->key_derivation;
  } else {
    key_derivation_.emplace();
    key_derivation_->opslimit = encrypt.opslimit;
    key_derivation_->memlimit = encrypt.memlimit;
    randombytes_buf(key_derivation_->salt.data(), key_derivation_->salt.size());
  }
  // The limits make sure that our own reader accepts the file by default.
  key_ = derive_key(passphrase, *key_derivation_, KeyDerivationLimits{});
}

void WritePlan::place() {
  entry_bytes_ = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) entry_bytes_ += index_entry_bytes(layout_, tensors_[i].fields());
  index_bytes_ = advance(0, std::max(entry_bytes_, options_.index_bytes_min));
  placements_.resize(tensors_.size());
  if (extension_ != nullptr) {
    segments_ = extension_->segments;
    place_headers(extension_->headers_end);
    place_data(extension_->data_end);
  } else if (headers_first(layout_)) {
    place_headers_first();
  } else {
    place_records();
  }
}

void WritePlan::place_records() {
  std::uint64_t position = kClassicIndexBegin + index_bytes_;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorInfo tensor = tensors_[i];
    placements_[i].header_offset = position;
    placements_[i].data_offset = position + tensor_header_bytes(tensor.fields(), header_plan(tensor));
    position = advance(placements_[i].data_offset, tensor.data_length);
  }
  terminator_at_ = position;
}

void WritePlan::place_headers_first() {
  const bool segments = has_segments(layout_);
  std::uint64_t headers_begin = kClassicIndexBegin + index_bytes_;
  if (segments) {
    headers_begin = align(kLayoutSectionEnd + sizeof(std::uint64_t) + index_bytes_, kSegmentEndUnit);
    segments_.metadata_begin = kLayoutSectionEnd;
    segments_.metadata_end = segments_.headers_begin = headers_begin;
  }
  place_headers(headers_begin);
  data_begin_ = align(headers_end_, kSegmentEndUnit);
  if (segments) segments_.headers_end = data_begin_;
  if (options_.detached_data) data_begin_ = sizeof(DetachedDataHeaderWire);
  if (segments) segments_.data_begin = data_begin_;
  place_data(data_begin_);
}

void WritePlan::place_headers(std::uint64_t position) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    placements_[i].header_offset = position;
    position = advance(position, tensor_header_bytes(tensors_[i].fields(), header_plan(tensors_[i])));
  }
  headers_end_ = position;
}

void WritePlan::place_data(std::uint64_t position) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (has_segments(layout_)) {
      position = segments_.data_begin + align(position - segments_.data_begin, kSegmentDataUnit);
    }
    placements_[i].data_offset = position;
    position = advance(position, tensors_[i].data_length);
  }
  terminator_at_ = position;
}

}  // namespace tzmark
