// The group of threads.
#include "testing/files/threads_group.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace tzmark::test {
namespace {

// A test that waits longer hangs.
constexpr std::chrono::seconds kHangs{60};

}  // namespace

class ThreadsGroup::Member final : public Group {
 public:
  Member(ThreadsGroup& group, unsigned rank, unsigned size) : group_(group), rank_(rank), size_(size) {}

  unsigned rank() const override { return rank_; }
  unsigned size() const override { return size_; }
  void broadcast(std::span<std::byte> memory, unsigned root) override {
    if (has_thrown_) {
      const std::lock_guard lock(group_.mutex_);
      ++group_.calls_after_throw_;
    }
    try {
      group_.broadcast(rank_, memory, root);
    } catch (...) {
      has_thrown_ = true;
      throw;
    }
  }

 private:
  ThreadsGroup& group_;
  const unsigned rank_, size_;
  bool has_thrown_ = false;
};

ThreadsGroup::ThreadsGroup(unsigned size) : ThreadsGroup(size, Faults{}) {}

ThreadsGroup::ThreadsGroup(unsigned size, const Faults& faults) : faults_(faults) {
  for (unsigned rank = 0; rank < size; ++rank) members_.push_back(std::make_unique<Member>(*this, rank, size));
}

ThreadsGroup::~ThreadsGroup() = default;

std::vector<std::exception_ptr> ThreadsGroup::run(const std::function<void(Group&)>& action) {
  std::vector<std::exception_ptr> thrown(members_.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          action(*members_[rank]);
        } catch (...) {
          thrown[rank] = std::current_exception();
        }
      });
    }
  }
  return thrown;
}

std::uint64_t ThreadsGroup::broadcasts() const {
  const std::lock_guard lock(mutex_);
  return broadcasts_;
}

std::uint64_t ThreadsGroup::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::uint64_t ThreadsGroup::calls_after_throw() const {
  const std::lock_guard lock(mutex_);
  return calls_after_throw_;
}

void ThreadsGroup::broadcast(unsigned rank, std::span<std::byte> memory, unsigned root) {
  if (rank == faults_.slow_rank) std::this_thread::sleep_for(faults_.delay);
  std::unique_lock lock(mutex_);
  if (broken_ != nullptr) throw std::runtime_error("the group broke before");
  if (rank == faults_.breaking_rank && faults_.breaks_at == broadcasts_) break_up("a process died");
  if (arrived_ == 0) {
    first_ = memory;
    root_ = root;
  }
  if (memory.empty() || memory.size() != first_.size() || root != root_ || root >= members_.size()) {
    break_up("ranks broadcast different things");
  }
  if (rank == root) from_root_ = memory;
  meet(lock);
  const std::span<const std::byte> source = from_root_;
  lock.unlock();
  if (rank != root) std::ranges::copy(source, memory.begin());
  lock.lock();
  if (rank == root) {
    ++broadcasts_;
    bytes_ += memory.size();
  }
  meet(lock);
}

void ThreadsGroup::meet(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t meeting = meetings_;
  if (++arrived_ == members_.size()) {
    arrived_ = 0;
    ++meetings_;
    met_.notify_all();
    return;
  }
  const bool have_met = met_.wait_for(lock, kHangs, [&] { return meetings_ != meeting || broken_ != nullptr; });
  if (!have_met) break_up("a rank did not take part");
  if (meetings_ == meeting) throw std::runtime_error(broken_);
}

void ThreadsGroup::break_up(const char* why) {
  broken_ = why;
  met_.notify_all();
  throw std::runtime_error(why);
}

}  // namespace tzmark::test
