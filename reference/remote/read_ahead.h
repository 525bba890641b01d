// Parts of a remote file that were read before they were asked for, and how far to read ahead.
//
// A small read brings a window of 64 KiB: the reads of headers and of an index are small and next to each other. Where
// reads follow each other, the windows double up to 8 MiB, so that one thread that waits for each of its reads still
// has several requests in flight. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tzmark {

class ReadAhead {
 public:
  static constexpr std::size_t kLeastBytes = 64 << 10;
  static constexpr std::size_t kMostBytes = 8 << 20;
  static constexpr std::size_t kKeptBytesMax = 64 << 20;

  // beginning: of the file; it stays.
  explicit ReadAhead(std::vector<std::byte> beginning);

  // Copies what there is from offset on, and returns how much. A large window is forgotten when its end was read.
  std::size_t copy(std::uint64_t offset, std::span<std::byte> out);
  // Copies all of it or nothing.
  bool copy_all(std::uint64_t offset, std::span<std::byte> out);
  // Returns how much to read for a read of so many bytes, at least these: more where it follows another one.
  std::size_t wanted_bytes(std::uint64_t offset, std::size_t bytes);
  // Keeps what was read ahead.
  void add(std::uint64_t offset, std::vector<std::byte> bytes);

 private:
  using Bytes = std::vector<std::byte>;
  struct Window {
    std::uint64_t offset;
    std::shared_ptr<const Bytes> bytes;
  };
  // A read that another one may follow.
  struct Trail {
    std::uint64_t end = 0;
    std::size_t bytes = 0;
  };

  const Bytes beginning_;
  std::mutex mutex_;
  std::list<Window> windows_;  // the latest first
  std::size_t kept_bytes_ = 0;
  std::array<Trail, 64> trails_{};
  std::size_t next_trail_ = 0;
};

}  // namespace tzmark
