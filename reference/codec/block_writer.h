// Writes small structures to a file one after another, in blocks. For one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "bytes/cursor.h"
#include "tzmark/io.h"

namespace tzmark {

class BlockWriter {
 public:
  BlockWriter(File& file, std::uint64_t offset) : file_(file), flushed_(offset), writer_(block_) {}

  ByteWriter& writer() { return writer_; }
  template <typename T>
  void integer(T value) {
    writer_.integer(value);
  }
  void bytes(std::span<const std::byte> bytes) { writer_.bytes(bytes); }
  std::uint64_t position() const { return flushed_ + block_.size(); }

  // Writes zeros up to end. REQUIRES: position() <= end.
  void zeros_to(std::uint64_t end) {
    TZMARK_REQUIRES(position() <= end);
    while (position() < end) {
      writer_.zeros(static_cast<std::size_t>(std::min<std::uint64_t>(end - position(), kBlockBytes)));
      flush();
    }
  }

  void flush_if_full() {
    if (block_.size() >= kBlockBytes) flush();
  }
  void flush() {
    file_.write_at(flushed_, std::span<const std::byte>(block_));
    flushed_ += block_.size();
    block_.clear();
  }

 private:
  static constexpr std::size_t kBlockBytes = 1 << 20;

  File& file_;
  std::uint64_t flushed_;
  std::vector<std::byte> block_;
  ByteWriter writer_;
};

}  // namespace tzmark
