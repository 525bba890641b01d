// Small writes that are made after the large ones: headers, and the ends of transfers that share a page with others.
//
// A write through the page cache has a file to itself. The header of a tensor would wait for large writes of other
// threads. On a path that bypasses the page cache its files write parts of pages through it all the same, for which
// ext4 and XFS wait for all direct writes in flight and start no other: that left a disk idle for a fifth of the time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "tzmark/io.h"

namespace tzmark {

// Thread-safe, except for flush.
class LateWrites {
 public:
  explicit LateWrites(File& file) : file_(file), page_bytes_(file.transfer_align_bytes()) {}

  // Keeps a copy of the bytes. May write what it has kept before.
  void keep(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    std::vector<Write> full;
    std::vector<std::byte> of_full;
    {
      const std::lock_guard lock(mutex_);
      // First what may need much memory: a write without its bytes would take those of others.
      const std::size_t at = bytes_.size();
      bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
      writes_.push_back({offset, at, bytes.size()});
      if (bytes_.size() < kKeptBytesMax) return;
      full.swap(writes_);
      of_full.swap(bytes_);
    }
    write(full, of_full);
  }

  // Keeps those bytes of a write that are in pages which it does not fill, and returns the others.
  ConstBuffer keep_edges(std::uint64_t& offset, ConstBuffer bytes) {
    if (page_bytes_ <= 1 || bytes.kind != MemoryKind::kHost || bytes.size == 0) return bytes;
    const std::uint64_t end = offset + bytes.size;
    const std::uint64_t body_begin = std::min(end, (offset + page_bytes_ - 1) / page_bytes_ * page_bytes_);
    const std::uint64_t body_end = std::max(body_begin, end - end % page_bytes_);
    const auto head = static_cast<std::size_t>(body_begin - offset);
    const auto body = static_cast<std::size_t>(body_end - body_begin);
    keep(offset, {bytes.data, head});
    keep(body_end, {bytes.data + head + body, bytes.size - head - body});
    offset = body_begin;
    return {bytes.data + head, body};
  }

  // Writes what is left. REQUIRES: no other thread uses this.
  void flush() { write(writes_, bytes_); }

 private:
  struct Write {
    std::uint64_t offset;
    std::size_t at, length;  // in bytes_
  };
  // Bounds the memory; about the headers and edges of some hundred tensors.
  static constexpr std::size_t kKeptBytesMax = 2 << 20;

  void write(std::vector<Write>& writes, const std::vector<std::byte>& bytes) {
    std::ranges::sort(writes, {}, &Write::offset);
    for (const Write& one : writes) file_.write_at(one.offset, std::span(bytes).subspan(one.at, one.length));
    writes.clear();
  }

  File& file_;
  const std::size_t page_bytes_;
  std::mutex mutex_;
  std::vector<Write> writes_;
  std::vector<std::byte> bytes_;
};

}  // namespace tzmark
