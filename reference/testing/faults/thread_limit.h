// For tests: lets the system start a few more threads, and then refuses each, as limits of processes do.
//
// The test program's pthread_create takes the place of the C library's. One at a time may be armed.
#pragma once

namespace tzmark::test {

class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit();

  // How many threads it refused.
  int refused() const;
};

}  // namespace tzmark::test
