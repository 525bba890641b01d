// A File that computes the CRC-64 of what is written to it, in any order and by any number of threads.
//
// The digest is of the bytes in memory just before each write, so a file with another digest was damaged while it was
// written or later. Reads pass through. Thread-safety: that of any File; digest() may be called after all writes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tzmark/io.h"

namespace tzmark::checkpoint {

struct FileDigest {
  std::uint64_t bytes = 0;
  std::uint64_t crc64 = 0;

  friend bool operator==(const FileDigest&, const FileDigest&) = default;
};

class DigestFile final : public File {
 public:
  // REQUIRES: the inner file is new and empty, and outlives this one.
  explicit DigestFile(File& inner) : inner_(inner) {}

  // Returns the digest of the file; ranges that were not written count as zeros. Throws TZE-ENV-003 if a byte was
  // written twice, as either write may have come last, or if the file does not end where the last write did.
  FileDigest digest() const;

  std::string_view io_path() const override { return inner_.io_path(); }
  std::uint64_t size() const override { return inner_.size(); }
  std::unique_ptr<TransferQueue> make_queue(unsigned depth) override;
  bool is_asynchronous() const override { return inner_.is_asynchronous(); }
  bool writes_take_turns() const override { return inner_.writes_take_turns(); }
  unsigned queue_depth_default() const override { return inner_.queue_depth_default(); }
  std::size_t transfer_bytes_default() const override { return inner_.transfer_bytes_default(); }
  std::size_t transfer_align_bytes() const override { return inner_.transfer_align_bytes(); }
  std::size_t memory_align_bytes() const override { return inner_.memory_align_bytes(); }
  void reserve(std::uint64_t bytes) override { inner_.reserve(bytes); }
  void expect_sync() override { inner_.expect_sync(); }

  void note(std::uint64_t offset, ConstBuffer written);

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override;
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override;
  void sync_all() override { inner_.sync(); }

 private:
  struct Piece {
    std::uint64_t offset, bytes, crc64;
  };

  File& inner_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
};

}  // namespace tzmark::checkpoint
