// Reads the headers of large tensors before their turn, several at a time.
//
// On a path that bypasses the page cache a header takes as long as the large transfers that are queued before it at the
// device. Read one by one when their tensors begin, headers took 40 of 110 ms for 32 tensors of 4 MiB.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "codec/reader_state.h"

namespace tzmark {

class HeaderPrefetch {
 public:
  // is_large(i): whether the header of a tensor, numbered in file order, is needed. Any thread.
  HeaderPrefetch(const ReaderState& state, std::size_t end, std::function<bool(std::size_t)> is_large);
  ~HeaderPrefetch();
  HeaderPrefetch(const HeaderPrefetch&) = delete;
  HeaderPrefetch& operator=(const HeaderPrefetch&) = delete;

  // Returns what read_header returns for a large tensor, or throws what it throws. REQUIRES: called with ascending
  // numbers, by one thread at a time.
  std::vector<std::byte> take(std::size_t i);

 private:
  struct Header {
    bool is_read = false;
    std::size_t room = 0;  // its bytes; before it is read, the most that it may have
    std::vector<std::byte> bytes;
    std::exception_ptr error;
  };

  void read_ahead();
  void read_until_stopped();
  // Returns the next tensor to be read, or end_. The lock is held.
  std::size_t claim();
  std::size_t room_of(std::size_t i) const;
  Header read(std::size_t i) const;

  const ReaderState& state_;
  const std::size_t end_;
  const std::function<bool(std::size_t)> is_large_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, Header> headers_;  // of claimed tensors
  std::size_t header_bytes_ = 0;           // room for them, also for those that are being read
  std::size_t next_ = 0;                   // tensors before it are claimed, taken, or not large
  std::size_t taken_ = 0;                  // tensors before it were taken
  bool started_ = false, stopped_ = false;
  std::vector<std::jthread> threads_;  // started by the first take
};

}  // namespace tzmark
