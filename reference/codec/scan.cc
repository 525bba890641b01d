// Reading all data of a file, or one tensor into memory: pieces of fixed size through the pipeline.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "codec/pipeline.h"
#include "codec/reader_state.h"
#include "codec/run.h"
#include "tzmark/error.h"
#include "tzmark/reader.h"

namespace tzmark {
namespace {

// A tensor that is too large to share a piece with others. Its pieces form a chain.
struct LargeTensor {
  LargeTensor(const Reader::State& state, std::size_t tensor, std::size_t piece_limit)
      : stream(state, tensor), piece_bytes(stream.piece_bytes(piece_limit)) {}

  FileTensorStream stream;
  std::size_t piece_bytes;
  TensorDigest digest;
  Sha256 plain;
};

class ScanJob {
 public:
  // Either a part of one large tensor, or a run of small ones.
  struct Piece {
    bool continues = false;
    std::size_t first = 0, count = 0;  // in file order
    Run run;
    std::shared_ptr<LargeTensor> large;
    std::uint64_t offset = 0;
    std::size_t length = 0;
    std::uint32_t crc32 = 0;
  };

  // into: memory for the one tensor that is read, if first + 1 == end.
  ScanJob(const Reader::State& state, const ScanOptions& options, std::size_t first, std::size_t end,
          const std::function<void(const ScannedTensor&)>& done, MutableBuffer into)
      : state_(state),
        options_(options),
        piece_limit_(state.options.piece_bytes),
        next_(first),
        end_(end),
        done_(done),
        into_(into) {}

  bool next(Piece& piece) {
    if (large_) {
      const std::uint64_t at = piece_offset_ + large_->piece_bytes;
      if (at < info(next_).data_length) {
        take_part(piece, at);
        return true;
      }
      large_.reset();
      ++next_;
    }
    if (next_ == end_) return false;
    piece = {};
    piece.first = next_;
    piece.run = Run(state_.index.layout);
    while (into_.data == nullptr && next_ < end_ && add_to(piece.run, next_)) {
      ++next_;
      ++piece.count;
    }
    if (piece.count > 0) return true;
    large_ = std::make_shared<LargeTensor>(state_, state_.index.in_file_order(next_), piece_limit_);
    take_part(piece, 0);
    return true;
  }

  void produce(Piece& piece, std::span<std::byte> buffer) {
    if (piece.large) {
      const MutableBuffer target = target_of(piece, buffer);
      piece.large->stream.read(piece.offset, target);
      if (options_.verify_hashes && piece.large->stream.expected()->wants_crc32()) {
        piece.crc32 = crc32(0, target.bytes());
      }
    } else {
      scan_run(piece, buffer);
    }
  }

  void chain(Piece& piece, std::span<std::byte> buffer) {
    if (!piece.large) return;
    LargeTensor& tensor = *piece.large;
    const ExpectedHashes& expected = *tensor.stream.expected();
    const std::span<const std::byte> data = target_of(piece, buffer).bytes();
    if (options_.verify_hashes) {
      if (piece.offset == 0) {
        tensor.digest.begin(expected.hashed_header(), expected.wants_crc32(), expected.wants_sha256());
      }
      tensor.digest.add(data, piece.crc32);
    }
    if (options_.plain_sha256) tensor.plain.update(data);
    const std::size_t index = state_.index.in_file_order(piece.first);
    if (piece.offset + piece.length < state_.index.tensors[index].data_length) return;
    if (options_.verify_hashes) expected.check(tensor.digest.crc32(), tensor.digest.finish_sha256());
    report(index, tensor.stream.header(), tensor.stream.header_bytes(),
           options_.plain_sha256 ? std::optional(tensor.plain.finish()) : std::nullopt);
  }

  void consume(Piece& piece, std::span<std::byte>) {
    if (!state_.options.progress) return;
    state_.options.progress(piece.large ? piece.length : piece.run.bytes());
  }

 private:
  TensorInfo info(std::size_t i) const { return state_.index.tensors[state_.index.in_file_order(i)]; }

  bool add_to(Run& run, std::size_t i) const {
    const TensorInfo tensor = info(i);
    const std::uint64_t header_end = tensor.header_offset + header_room(state_.index, state_.index.in_file_order(i));
    return run.add(tensor.header_offset, header_end, tensor.data_offset, tensor.data_length, piece_limit_);
  }

  void take_part(Piece& piece, std::uint64_t offset) {
    piece = {};
    piece.first = next_;
    piece.large = large_;
    piece.offset = piece_offset_ = offset;
    piece.continues = offset != 0;
    piece.length =
        static_cast<std::size_t>(std::min<std::uint64_t>(large_->piece_bytes, info(next_).data_length - offset));
  }

  MutableBuffer target_of(const Piece& piece, std::span<std::byte> buffer) const {
    if (into_.data != nullptr) return into_.sub(static_cast<std::size_t>(piece.offset), piece.length);
    return buffer.first(piece.length);
  }

  // Small tensors whole: one read for their headers and data, or one for each, then each tensor on its own.
  void scan_run(const Piece& piece, std::span<std::byte> buffer) {
    const Run& run = piece.run;
    state_.file->read_at(run.front().begin, buffer.first(run.front().bytes()));
    state_.data().read_at(run.data().begin, buffer.subspan(run.front().bytes(), run.data().bytes()));
    TensorHeader header;
    TensorDigest digest;
    for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) {
      const std::size_t index = state_.index.in_file_order(i);
      const TensorInfo tensor = state_.index.tensors[index];
      const auto header_bytes =
          decode_header(state_.index, index,
                        buffer.subspan(run.header_at(tensor.header_offset), header_room(state_.index, index)), header);
      const auto data = tensor.data_length == 0 ? std::span<std::byte>()
                                                : buffer.subspan(run.data_at(tensor.data_offset), tensor.data_length);
      decrypt(tensor, header, data);
      if (options_.verify_hashes) {
        const ExpectedHashes expected(state_.index.layout, header_bytes, header, tensor.header_offset);
        digest.begin(expected.hashed_header(), expected.wants_crc32(), expected.wants_sha256());
        digest.add(data, expected.wants_crc32() ? crc32(0, data) : 0);
        expected.check(digest.crc32(), digest.finish_sha256());
      }
      report(index, header, header_bytes, options_.plain_sha256 ? std::optional(sha256(data)) : std::nullopt);
    }
  }

  void decrypt(const TensorInfo& tensor, const TensorHeader& header, std::span<std::byte> data) const {
    if (!state_.index.header.encrypted) return;
    const std::uint64_t crypt_at = tensor.header_offset + header.crypt_begin;
    if (!state_.keys.has_key()) {
      throw Error(ErrorCode::kCryptKeyMissing, "the file is encrypted and no key was given", crypt_at);
    }
    if (!header.crypt.cipher) return;
    open_messages(*header.crypt.cipher, state_.keys.key_for(header.crypt, crypt_at), data, 0, tensor.data_offset);
  }

  void report(std::size_t index, const TensorHeader& header, std::span<const std::byte> header_bytes,
              std::optional<Sha256Digest> plain) {
    if (!done_) return;
    if (state_.index.tensors[index].meta()) plain.reset();
    const std::lock_guard lock(done_mutex_);
    done_({index, header, header_bytes, plain});
  }

  const Reader::State& state_;
  const ScanOptions options_;
  const std::size_t piece_limit_;
  std::size_t next_;
  const std::size_t end_;
  std::shared_ptr<LargeTensor> large_;
  std::uint64_t piece_offset_ = 0;
  const std::function<void(const ScannedTensor&)> done_;
  std::mutex done_mutex_;
  const MutableBuffer into_;
};

}  // namespace

void Reader::scan(const ScanOptions& options, const std::function<void(const ScannedTensor&)>& done) const {
  const ReadOptions& read = state_->options;
  ScanJob job(*state_, options, 0, tensors().size(), done, {});
  Pipeline(job, {read.threads, read.piece_bytes}, read.piece_bytes).run();
}

void Reader::read(std::size_t tensor, MutableBuffer out, bool verify_hashes) const {
  const TensorInfo info = tensors()[tensor];
  const std::uint64_t nominal = *nominal_bytes(info.shape, info.dtype.item_bytes);
  if (out.size != nominal) {
    throw Error(ErrorCode::kUsage, fmt::format("memory of {} bytes for a tensor of {}", out.size, nominal));
  }
  if (info.meta()) std::memset(out.data, 0, out.size);
  // A tensor's place in the file's order is needed only here, and only for files whose index is out of order.
  std::size_t place = tensor;
  if (!state_->index.file_order.empty()) {
    place = static_cast<std::size_t>(std::ranges::find(state_->index.file_order, tensor) -
                                     state_->index.file_order.begin());
  }
  std::byte none{};
  const MutableBuffer into = info.data_length == 0 ? MutableBuffer(&none, 1) : out;
  ScanJob job(*state_, {.verify_hashes = verify_hashes}, place, place + 1, {}, into);
  Pipeline(job, {state_->options.threads, state_->options.piece_bytes}, 0).run();
}

}  // namespace tzmark
