// Transfers blocks of a file through a File and its queues, each once, on several threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

#include "harness/latency.h"
#include "subjects/ours.h"

namespace tzmark::bench {

// Where latencies are added: of the submission, in asynchronous queues alone, and from there to the completion.
struct Latencies {
  LatencyHistogram& submission;
  LatencyHistogram& completion;
};

struct Block {
  std::uint64_t offset = 0;  // in the file
  MutableBuffer memory;
};

class BlockMover {
 public:
  // Returns the block with that number. No two transfers in flight share a slot.
  using BlockOf = std::function<Block(std::uint64_t number, std::size_t slot)>;

  BlockMover(File& file, Transfer::Kind kind, std::uint64_t blocks, const IoSettings& moving, BlockOf block_of);

  // Sets memory that transfers use repeatedly, so that queues can register it.
  void reuse(MutableBuffer memory) { reused_ = memory; }
  // Lets no transfer start before all threads are ready.
  void start_together() { starts_together_ = true; }
  // Sets what is done to the memory of a transfer just before it.
  void before_each(std::function<void(const Transfer&)> change) { before_each_ = std::move(change); }

  std::size_t slot_count() const { return std::size_t{workers_} * queue_depth_; }

  // Returns the time from the first start, or from when all threads were ready, to the last end.
  std::chrono::nanoseconds run(Latencies latencies);

 private:
  struct InFlight {
    Transfer transfer;
    std::chrono::steady_clock::time_point submitted;
    std::size_t number = 0;
  };

  void wait_for_others();
  // Ends all threads.
  void stop();
  void work(unsigned worker, Latencies latencies);
  bool start(InFlight& slot, TransferQueue& queue, LatencyHistogram& submission);

  File& file_;
  const Transfer::Kind kind_;
  const std::uint64_t blocks_;
  const BlockOf block_of_;
  MutableBuffer reused_;
  std::function<void(const Transfer&)> before_each_;
  bool starts_together_ = false;
  unsigned workers_;
  unsigned queue_depth_;
  std::atomic<std::uint64_t> next_block_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned ready_ = 0;
  bool is_stopped_ = false;
  std::chrono::steady_clock::time_point begin_, end_;
  std::exception_ptr error_;
};

}  // namespace tzmark::bench
