// For tests: a directory of their own, a limit for the size of files, and bytes to fill files with.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tzmark::test {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

inline Bytes read_whole(const std::string& file_name) {
  std::ifstream stream(file_name, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot open " + file_name);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline void write_whole(const std::string& file_name, std::span<const std::byte> bytes) {
  std::ofstream stream(file_name, std::ios::binary | std::ios::trunc);
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream.flush()) throw std::runtime_error("cannot write " + file_name);
}

// An empty directory that is gone, with all in it, when the object is.
class TestDirectory {
 public:
  explicit TestDirectory(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    name_ = (parent / "tzmark-test-XXXXXX").string();
    if (::mkdtemp(name_.data()) == nullptr) throw std::runtime_error("cannot make " + name_);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(name_, ignored);
  }

  const std::string& name() const { return name_; }
  std::string operator/(const std::string& entry) const { return name_ + "/" + entry; }

  // The names of its entries, sorted.
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(name_)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

 private:
  std::string name_;
};

// As long as it lives, no file of this process grows beyond a size: a full disk that needs no disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes_max) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    if (::getrlimit(RLIMIT_FSIZE, &before_) != 0) throw std::runtime_error("getrlimit");
    const rlimit limit{bytes_max, before_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("setrlimit");
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    static_cast<void>(std::signal(SIGXFSZ, handler_));
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace tzmark::test
