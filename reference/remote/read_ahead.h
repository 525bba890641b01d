// Parts of a remote file that were read before they were asked for, and how far to read ahead.
//
// A small read brings a window of 64 KiB: the reads of headers and of an index are small and next to each other. Where
// reads follow each other, the windows double up to 32 MiB, so that one thread that waits for each of its reads still
// has many requests in flight. Thread-safe.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tzmark {

class ReadAhead {
 public:
  static constexpr std::size_t kLeastBytes = 64 << 10;
  static constexpr std::size_t kMostBytes = 32 << 20;
  static constexpr std::size_t kKeptBytesMax = 128 << 20;

  // beginning: of the file; it stays.
  explicit ReadAhead(std::vector<std::byte> beginning);

  // Copies what there is from offset on, and returns how much. A large window is forgotten when its end was read.
  std::size_t copy(std::uint64_t offset, std::span<std::byte> out);
  // Copies all of it or nothing.
  bool copy_all(std::uint64_t offset, std::span<std::byte> out);

  // The right of one thread to read a range, which no other thread reads ahead meanwhile.
  class Claim {
   public:
    Claim(Claim&& other) noexcept
        : bytes(other.bytes), owner_(std::exchange(other.owner_, nullptr)), offset_(other.offset_) {}
    Claim& operator=(Claim&&) = delete;
    ~Claim() {
      if (owner_ != nullptr) owner_->end(offset_);
    }
    // How much to read: less than was asked for where another thread reads the rest, and more where the read follows
    // another one.
    std::size_t bytes = 0;
    // Keeps what was read ahead.
    void keep(std::vector<std::byte> read) { owner_->add(offset_, std::move(read)); }

   private:
    friend class ReadAhead;
    Claim(ReadAhead& owner, std::uint64_t offset, std::size_t wanted)
        : bytes(wanted), owner_(&owner), offset_(offset) {}
    ReadAhead* owner_;
    std::uint64_t offset_;
  };
  // Returns nothing when another thread has read ahead what is asked for: waits for it. file_bytes: no claim goes
  // beyond. REQUIRES: bytes > 0, and the range lies in the file.
  std::optional<Claim> claim(std::uint64_t offset, std::size_t bytes, std::uint64_t file_bytes);

  void add(std::uint64_t offset, std::vector<std::byte> bytes);

 private:
  using Bytes = std::vector<std::byte>;
  struct Window {
    std::uint64_t offset;
    std::shared_ptr<const Bytes> bytes;
  };

  // Reads that followed each other, and that another one may follow.
  struct Trail {
    std::uint64_t begin = 0, end = 0;
    std::size_t bytes = 0;  // of the last one
  };
  struct InFlight {
    std::size_t bytes;
    bool is_kept;  // afterwards, so that others can have it
  };

  // Returns the trail that ends there or a little before, or a new one.
  Trail& trail_to(std::uint64_t offset);
  void end(std::uint64_t offset);

  const Bytes beginning_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::multimap<std::uint64_t, InFlight> in_flight_;  // by offset
  std::list<Window> windows_;                         // the latest first
  std::size_t kept_bytes_ = 0;
  std::array<Trail, 64> trails_{};
  std::size_t next_trail_ = 0;
};

}  // namespace tzmark
