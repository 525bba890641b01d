// Takes the data of many tensors, which lie one after another, through the pipeline in pieces of fixed size.
//
// Reading a file and writing one differ only in where the bytes come from and go to; a Pass says that.
// For one run; the calls of a Pass come from several threads as said at each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "codec/pipeline.h"

namespace tzmark::safetensors {

// One tensor on its way.
class PassedTensor {
 public:
  virtual ~PassedTensor() = default;
  // Any thread, any order. What it returns is handed to hash.
  virtual std::uint32_t read(std::uint64_t offset, std::span<std::byte> data) = 0;
  // In order, one at a time.
  virtual void hash(std::span<const std::byte> data, std::uint32_t read_result) = 0;
  // After the last hash.
  virtual void finish() = 0;
};

class Pass {
 public:
  virtual ~Pass() = default;
  // Tensors are numbered in the order of their data. Each is opened once, from any thread.
  virtual std::size_t count() const = 0;
  virtual std::uint64_t length(std::size_t tensor) const = 0;
  virtual std::unique_ptr<PassedTensor> open(std::size_t tensor) = 0;
  // Data from this offset of a tensor on, which may go on into the tensors behind it. Any thread, any order.
  virtual void put(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> data) = 0;
};

class PassJob {
 public:
  // Either a part of one large tensor, or a run of small ones.
  struct Piece {
    bool continues = false;
    std::size_t first = 0, count = 0;
    std::shared_ptr<PassedTensor> large;
    std::uint64_t offset = 0;
    std::size_t length = 0;
    std::uint32_t read_result = 0;
  };

  PassJob(Pass& pass, std::size_t piece_bytes) : pass_(pass), piece_bytes_(piece_bytes) {}

  bool next(Piece& piece) {
    if (large_) {
      const std::uint64_t at = offset_ + piece_bytes_;
      if (at < pass_.length(next_)) {
        take_part(piece, at);
        return true;
      }
      large_.reset();
      ++next_;
    }
    if (next_ == pass_.count()) return false;
    piece = {};
    piece.first = next_;
    while (next_ < pass_.count() && pass_.length(next_) <= piece_bytes_ - piece.length) {
      piece.length += static_cast<std::size_t>(pass_.length(next_++));
      ++piece.count;
    }
    if (piece.count > 0) return true;
    large_ = pass_.open(next_);
    take_part(piece, 0);
    return true;
  }

  void produce(Piece& piece, std::span<std::byte> buffer) {
    if (piece.large) {
      piece.read_result = piece.large->read(piece.offset, buffer.first(piece.length));
      return;
    }
    for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) {
      const auto data = buffer.first(static_cast<std::size_t>(pass_.length(i)));
      const auto tensor = pass_.open(i);
      tensor->hash(data, tensor->read(0, data));
      tensor->finish();
      buffer = buffer.subspan(data.size());
    }
  }

  void chain(Piece& piece, std::span<std::byte> buffer) {
    if (!piece.large) return;
    piece.large->hash(buffer.first(piece.length), piece.read_result);
    if (piece.offset + piece.length == pass_.length(piece.first)) piece.large->finish();
  }

  void consume(Piece& piece, std::span<std::byte> buffer) {
    pass_.put(piece.first, piece.offset, buffer.first(piece.length));
  }

 private:
  void take_part(Piece& piece, std::uint64_t offset) {
    piece = {};
    piece.first = next_;
    piece.large = large_;
    piece.offset = offset_ = offset;
    piece.continues = offset != 0;
    piece.length = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes_, pass_.length(next_) - offset));
  }

  Pass& pass_;
  const std::size_t piece_bytes_;
  std::size_t next_ = 0;
  std::shared_ptr<PassedTensor> large_;
  std::uint64_t offset_ = 0;  // of the last part of large_
};

inline void run_pass(Pass& pass, unsigned threads, std::size_t piece_bytes) {
  const PipelineOptions options{threads, piece_bytes};
  options.check();
  PassJob job(pass, piece_bytes);
  Pipeline(job, options, piece_bytes).run();
}

}  // namespace tzmark::safetensors
