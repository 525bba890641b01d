// A File over memory, for tests. Writes may run concurrently with each other, but not with reads.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "tzmark/io.h"

namespace tzmark {

class MemoryFile final : public File {
 public:
  MemoryFile() = default;
  explicit MemoryFile(std::vector<std::byte> content) : content_(std::move(content)) {}

  std::string_view io_path() const override { return "memory"; }
  std::uint64_t size() const override { return content_.size(); }
  const std::vector<std::byte>& content() const { return content_; }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override;
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override;
  void sync_all() override {}

 private:
  std::mutex mutex_;  // writes may grow the content
  std::vector<std::byte> content_;
};

}  // namespace tzmark
