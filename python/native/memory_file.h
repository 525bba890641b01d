// Files whose bytes lie in memory.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "tzmark/io.h"

namespace tzmark::py {

// Reads bytes that outlive it.
class ReadOnlyMemoryFile final : public File {
 public:
  explicit ReadOnlyMemoryFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::string_view io_path() const override { return "memory"; }
  std::uint64_t size() const override { return bytes_.size(); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override;
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override;
  void sync_all() override {}

 private:
  std::span<const std::byte> bytes_;
};

// Grows as it is written. Thread-safe.
class GrowingMemoryFile final : public File {
 public:
  std::string_view io_path() const override { return "memory"; }
  std::uint64_t size() const override;
  // REQUIRES: no other call at the same time.
  std::span<const std::byte> content() const { return bytes_; }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override;
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override;
  void sync_all() override {}

 private:
  mutable std::mutex mutex_;
  std::vector<std::byte> bytes_;
};

}  // namespace tzmark::py
