// Processes the data of many consecutive tensors through the pipeline, in pieces of a fixed size.
//
// A Pass says where the bytes come from and go to, which is the only difference between reading a file and writing one.
// It is used for one run; its calls come from several threads, as each comment says.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/chain_stage.h"
#include "codec/lanes.h"

namespace tzmark::safetensors {

// One tensor being processed.
class PassedTensor {
 public:
  virtual ~PassedTensor() = default;
  // Any thread, any order. The result is passed to hash.
  virtual std::uint32_t read(std::uint64_t offset, std::span<std::byte> data) = 0;
  // The whole data, if it lies in host memory as long as the tensor lives; look is then called instead of read.
  virtual std::span<const std::byte> in_memory() const { return {}; }
  // Returns what read would return for a part that is in memory.
  virtual std::uint32_t look(std::span<const std::byte>) const { return 0; }
  // In order, one call at a time. May leave SHA-256 to update_side_by_side.
  virtual void hash(std::span<const std::byte> data, std::uint32_t read_result, std::vector<Sha256Part>& later) = 0;
  // After the last hash, and what it left.
  virtual void finish() = 0;
};

class Pass {
 public:
  virtual ~Pass() = default;
  // Tensors are numbered in the order of their data. Each is opened once, from any thread.
  virtual std::size_t count() const = 0;
  virtual std::uint64_t length(std::size_t tensor) const = 0;
  // Whether SHA-256 of tensors is computed, so that it pays to open several.
  virtual bool hashes() const = 0;
  // The file from which the data is transferred, many parts at a time; look is then called instead of read. In it the
  // tensors lie one after the other. Null: the tensors read by themselves.
  virtual File* file() const { return nullptr; }
  // The offset in file() of a tensor's data.
  virtual std::uint64_t file_offset(std::size_t) const { return 0; }
  virtual std::unique_ptr<PassedTensor> open(std::size_t tensor) = 0;
  // Receives data from this offset of a tensor on, which may extend into the tensors after it. Any thread, any order.
  virtual void put(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> data) = 0;
};

// A tensor that is too large to share a piece with others.
struct LargePassed {
  std::uint64_t data_length() const { return length; }
  std::size_t header_bytes() const { return 0; }
  std::size_t part_bytes(std::uint64_t, std::size_t most) const { return most; }

  Chain chain;
  std::unique_ptr<PassedTensor> tensor;
  std::uint64_t length;
};

class PassJob {
 public:
  struct Piece : TensorPiece<LargePassed> {
    std::uint32_t read_result = 0;
    std::size_t read_bytes = 0;  // of a run
  };

  PassJob(Pass& pass, std::size_t piece_bytes, unsigned threads)
      : pass_(pass),
        file_(pass.file()),
        piece_bytes_(piece_bytes),
        lanes_(0, pass.count(), threads, pass.hashes(), {piece_bytes, piece_bytes, open_streams_max()}) {}

  bool next(Piece& piece, const Position* before) {
    const auto add_to_run = [&](std::size_t tensor) {
      const std::uint64_t length = pass_.length(tensor);
      if (length > piece_bytes_ - piece.length) return false;
      piece.length += static_cast<std::size_t>(length);
      return true;
    };
    const auto open = [&](std::size_t tensor) {
      return std::make_shared<LargePassed>(Chain{}, pass_.open(tensor), pass_.length(tensor));
    };
    if (!lanes_.next(piece, before, add_to_run, open)) return false;
    piece.has_own_memory = piece.large && !piece.large->tensor->in_memory().empty();
    return true;
  }

  std::size_t reads(Piece& piece, std::span<std::byte> memory, FileTransfers& transfers) {
    if (file_ == nullptr || piece.has_own_memory || piece.length == 0) return 0;
    transfers[0].file = file_;
    transfers[0].transfer.offset = pass_.file_offset(piece.first) + piece.offset;
    transfers[0].transfer.memory = memory.first(piece.length);
    return 1;
  }

  void produce(Piece& piece, std::span<std::byte> memory) {
    if (piece.large && (piece.has_own_memory || file_ != nullptr)) {
      piece.read_result = piece.large->tensor->look(data_of(piece, memory));
      return;
    }
    if (piece.large) piece.read_result = piece.large->tensor->read(piece.offset, memory.first(piece.length));
  }

  std::size_t streams_max() const { return lanes_.streams_max(); }
  std::size_t streams_wanted() const { return lanes_.streams_wanted(); }

  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving& keep_moving) {
    ChainStage(*this, steps, keep_moving).run();
  }

  // What ChainStage calls.
  using Small = std::unique_ptr<PassedTensor>;
  void open_small(Small& small, ChainStep<Piece>& step, std::size_t tensor, std::vector<Sha256Part>& parts) {
    if (tensor == step.piece->first) step.piece->read_bytes = 0;
    const auto data = step.memory.subspan(step.piece->read_bytes, static_cast<std::size_t>(pass_.length(tensor)));
    step.piece->read_bytes += data.size();
    small = pass_.open(tensor);
    small->hash(data, file_ != nullptr ? small->look(data) : small->read(0, data), parts);
  }
  void finish_small(Small& small, const ChainStep<Piece>&) { small->finish(); }
  void add_part(const ChainStep<Piece>& step, std::vector<Sha256Part>& parts) {
    step.piece->large->tensor->hash(data_of(*step.piece, step.memory), step.piece->read_result, parts);
  }
  void finish_part(const ChainStep<Piece>& step) {
    const Piece& piece = *step.piece;
    if (piece.offset + piece.length == pass_.length(piece.first)) piece.large->tensor->finish();
  }

  void consume(Piece& piece, std::span<std::byte> memory) {
    pass_.put(piece.first, piece.offset, data_of(piece, memory));
  }

  std::size_t writes(Piece&, std::span<std::byte>, FileTransfers&) { return 0; }

 private:
  static std::span<const std::byte> data_of(const Piece& piece, std::span<std::byte> memory) {
    if (!piece.has_own_memory) return memory.first(piece.length);
    return piece.large->tensor->in_memory().subspan(static_cast<std::size_t>(piece.offset), piece.length);
  }

  Pass& pass_;
  File* const file_;
  const std::size_t piece_bytes_;
  Lanes<LargePassed> lanes_;
};

inline void run_pass(Pass& pass, unsigned threads, std::size_t piece_bytes) {
  const PipelineOptions options{.threads = threads, .piece_bytes = piece_bytes};
  options.check();
  std::uint64_t work_bytes = 0;
  for (std::size_t i = 0; i < pass.count(); ++i) work_bytes += pass.length(i);
  PassJob job(pass, piece_bytes, options.thread_count());
  Pipeline(job, options, work_bytes, pass.file()).run();
}

}  // namespace tzmark::safetensors
