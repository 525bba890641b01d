// Threads that take blocks in turn; see block_mover.h.
#include "subjects/block_mover.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/threads.h"

namespace tzmark::bench {

BlockMover::BlockMover(File& file, Transfer::Kind kind, std::uint64_t blocks, const IoSettings& moving,
                       BlockOf block_of)
    : file_(file), kind_(kind), blocks_(blocks), block_of_(std::move(block_of)) {
  const unsigned threads = thread_count(moving.threads);
  const unsigned depth = queue_depth(file, moving);
  workers_ = file.is_asynchronous() ? threads : std::max(threads, depth);
  queue_depth_ = file.is_asynchronous() ? (depth + threads - 1) / threads : 1;
}

std::chrono::nanoseconds BlockMover::run(Latencies latencies) {
  begin_ = end_ = std::chrono::steady_clock::now();
  {
    const auto helpers = start_all(
        workers_ - 1, [this, latencies](std::size_t i) { work(static_cast<unsigned>(i) + 1, latencies); },
        [this](std::size_t) { stop(); });
    work(0, latencies);
  }
  if (error_) std::rethrow_exception(error_);
  return end_ - begin_;
}

void BlockMover::wait_for_others() {
  std::unique_lock lock(mutex_);
  if (++ready_ == workers_) {
    begin_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return ready_ == workers_ || is_stopped_; });
}

void BlockMover::stop() {
  next_block_ = blocks_;
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
}

void BlockMover::work(unsigned worker, Latencies latencies) try {
  LatencyHistogram submission, completion;
  std::vector<InFlight> slots(queue_depth_);
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].number = worker * std::size_t{queue_depth_} + i;
  const auto queue = file_.make_queue(queue_depth_);
  if (reused_.size > 0) queue->register_memory({&reused_, 1});
  if (starts_together_) wait_for_others();
  std::size_t fresh = 0;
  while (fresh < slots.size() && start(slots[fresh], *queue, submission)) ++fresh;
  while (queue->in_flight() > 0) {
    Transfer& done = queue->wait();
    InFlight& slot = *static_cast<InFlight*>(done.owner);
    completion.record(std::chrono::steady_clock::now() - slot.submitted);
    if (done.error) std::rethrow_exception(done.error);
    start(slot, *queue, submission);
  }
  const auto end = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  end_ = std::max(end_, end);
  latencies.completion.merge(completion);
  if (file_.is_asynchronous()) latencies.submission.merge(submission);
} catch (...) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
  stop();
}

bool BlockMover::start(InFlight& slot, TransferQueue& queue, LatencyHistogram& submission) {
  const std::uint64_t number = next_block_.fetch_add(1);
  if (number >= blocks_) return false;
  const Block block = block_of_(number, slot.number);
  slot.transfer.kind = kind_;
  slot.transfer.offset = block.offset;
  slot.transfer.memory = block.memory;
  slot.transfer.owner = &slot;
  if (before_each_) before_each_(slot.transfer);
  const auto begin = std::chrono::steady_clock::now();
  queue.start(slot.transfer);
  // A synchronous queue has made the whole transfer by now.
  slot.submitted = file_.is_asynchronous() ? std::chrono::steady_clock::now() : begin;
  submission.record(slot.submitted - begin);
  return true;
}

}  // namespace tzmark::bench
