// A group of threads, in place of processes, whose broadcasts may fail or take long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tzmark/group.h"

namespace tzmark::test {

class ThreadsGroup {
 public:
  struct Faults {
    // The broadcast, from 0, at which breaking_rank fails, and all others with it.
    std::optional<std::uint64_t> breaks_at = {};
    unsigned breaking_rank = 0;
    std::chrono::microseconds delay{0};  // of slow_rank, before each broadcast
    unsigned slow_rank = 0;
  };

  explicit ThreadsGroup(unsigned size);
  ThreadsGroup(unsigned size, const Faults& faults);
  ~ThreadsGroup();

  // Calls action for each rank in a thread of its own, and returns what each threw.
  std::vector<std::exception_ptr> run(const std::function<void(Group&)>& action);

  std::uint64_t broadcasts() const;
  std::uint64_t bytes() const;              // of these
  std::uint64_t calls_after_throw() const;  // by ranks for which a broadcast has thrown already

 private:
  class Member;

  void broadcast(unsigned rank, std::span<std::byte> memory, unsigned root);
  // Waits until all ranks have called it.
  void meet(std::unique_lock<std::mutex>& lock);
  [[noreturn]] void break_up(const char* why);

  const Faults faults_;
  std::vector<std::unique_ptr<Member>> members_;
  mutable std::mutex mutex_;
  std::condition_variable met_;
  unsigned arrived_ = 0;
  std::uint64_t meetings_ = 0;
  std::span<std::byte> first_;  // of the rank that arrived first
  std::span<const std::byte> from_root_;
  unsigned root_ = 0;
  std::uint64_t broadcasts_ = 0, bytes_ = 0, calls_after_throw_ = 0;
  const char* broken_ = nullptr;
};

}  // namespace tzmark::test
