// Noting what is written, and putting the notes together.
#include "checkpoint/digest_file.h"

#include <algorithm>

#include "bytes/digest.h"
#include "tzmark/error.h"

namespace tzmark::checkpoint {
namespace {

class DigestQueue final : public TransferQueue {
 public:
  DigestQueue(DigestFile& file, std::unique_ptr<TransferQueue> inner) : file_(file), inner_(std::move(inner)) {}

  unsigned depth() const override { return inner_->depth(); }
  unsigned in_flight() const override { return inner_->in_flight(); }
  void start(Transfer& transfer) override {
    if (transfer.kind == Transfer::Kind::kWrite) file_.note(transfer.offset, transfer.memory);
    inner_->start(transfer);
  }
  Transfer& wait() override { return inner_->wait(); }
  Transfer* poll() override { return inner_->poll(); }
  void register_memory(std::span<const MutableBuffer> memory) override { inner_->register_memory(memory); }

 private:
  DigestFile& file_;
  std::unique_ptr<TransferQueue> inner_;
};

}  // namespace

std::unique_ptr<TransferQueue> DigestFile::make_queue(unsigned depth) {
  return std::make_unique<DigestQueue>(*this, inner_.make_queue(depth));
}

void DigestFile::note(std::uint64_t offset, ConstBuffer written) {
  const Piece piece{offset, written.size, crc64(0, written.bytes())};
  const std::lock_guard lock(mutex_);
  pieces_.push_back(piece);
}

std::size_t DigestFile::read_some(std::uint64_t offset, MutableBuffer out) {
  inner_.read_at(offset, out);
  return out.size;
}

std::size_t DigestFile::write_some(std::uint64_t offset, ConstBuffer in) {
  note(offset, in);
  inner_.write_at(offset, in);
  return in.size;
}

FileDigest DigestFile::digest() const {
  std::vector<Piece> pieces = pieces_;
  std::ranges::sort(pieces, {}, &Piece::offset);
  FileDigest all;
  for (const Piece& piece : pieces) {
    if (piece.offset < all.bytes) throw Error(ErrorCode::kWriteFailed, "these bytes were written twice", piece.offset);
    const std::uint64_t hole_bytes = piece.offset - all.bytes;
    if (hole_bytes != 0) all.crc64 = crc64_combine(all.crc64, crc64_of_zeros(hole_bytes), hole_bytes);
    all.crc64 = crc64_combine(all.crc64, piece.crc64, piece.bytes);
    all.bytes = piece.offset + piece.bytes;
  }
  if (all.bytes != inner_.size()) {
    throw Error(ErrorCode::kWriteFailed, "the file does not end where the last write did", all.bytes);
  }
  return all;
}

}  // namespace tzmark::checkpoint
