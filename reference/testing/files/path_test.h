// For tests that run over every I/O path: which there are, which of them this directory's file system can serve, and
// files to begin with.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "testing/files/memory_file.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::test {

inline const std::string kMemory = "memory";

// The files that have a name.
inline std::vector<std::string> disk_paths() {
  std::vector<std::string> names;
  for (const IoPath& path : io_paths()) {
    if (!path.traits.is_remote) names.emplace_back(path.name);
  }
  return names;
}

inline std::vector<std::string> all_paths() {
  auto names = disk_paths();
  names.push_back(kMemory);
  return names;
}

// Names of tests have no hyphens.
inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

// Why a path cannot be used for files of a directory; empty if it can. What only the file system knows shows when a
// file is opened.
inline std::string why_unusable(const IoPath& path, const TestDirectory& directory) {
  std::string reason = path.why_unavailable();
  if (!reason.empty()) return reason;
  const std::string name = directory / "probe";
  try {
    path.open(name, OpenMode::kCreate);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    return error.message();
  }
  std::filesystem::remove(name);
  return {};
}

inline std::vector<std::byte> read(File& file, std::uint64_t offset, std::size_t count) {
  std::vector<std::byte> bytes(count);
  file.read_at(offset, std::span(bytes));
  return bytes;
}

// Calls action(thread number) on four threads.
template <typename Action>
void on_four_threads(Action&& action) {
  std::vector<std::jthread> threads;
  for (int number = 0; number < 4; ++number) threads.emplace_back([&action, number] { action(number); });
}

// Memory at a chosen distance from a multiple of 4096.
class PlacedMemory {
 public:
  PlacedMemory(std::size_t bytes, std::size_t distance) : room_(bytes + 2 * 4096) {
    const auto address = reinterpret_cast<std::uintptr_t>(room_.data());
    bytes_ = std::span(room_).subspan(4096 - address % 4096 + distance % 4096, bytes);
  }
  PlacedMemory(const std::vector<std::byte>& content, std::size_t distance) : PlacedMemory(content.size(), distance) {
    std::ranges::copy(content, bytes_.begin());
  }
  PlacedMemory(const PlacedMemory&) = delete;
  PlacedMemory& operator=(const PlacedMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  bool operator==(const std::vector<std::byte>& content) const { return std::ranges::equal(bytes_, content); }

 private:
  std::vector<std::byte> room_;
  std::span<std::byte> bytes_;
};

// One test for each path. Skipped, with the reason, where the path cannot be used.
class PathTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const IoPath& path : io_paths()) {
      if (path.name != GetParam()) continue;
      const std::string reason = why_unusable(path, directory_);
      if (!reason.empty()) GTEST_SKIP() << reason;
    }
  }

  std::string new_name() { return directory_ / fmt::format("file-{}", files_++); }

  std::unique_ptr<File> create() {
    if (GetParam() == kMemory) return std::make_unique<MemoryFile>();
    return open_file(new_name(), OpenMode::kCreate, GetParam());
  }

  std::unique_ptr<File> open(const Bytes& content, OpenMode mode = OpenMode::kRead) {
    if (GetParam() == kMemory) return std::make_unique<MemoryFile>(content);
    const std::string name = new_name();
    write_whole(name, content);
    return open_file(name, mode, GetParam());
  }

  TestDirectory directory_;
  int files_ = 0;
};

}  // namespace tzmark::test
