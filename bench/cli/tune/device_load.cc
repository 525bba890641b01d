// Threads with a queue each take blocks in turn; see device_load.h.
#include "cli/tune/device_load.h"

#include <sodium.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "harness/threads.h"
#include "subjects/ours.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

class EndlessMover {
 public:
  EndlessMover(const DeviceLoad& load, const std::function<void()>& check)
      : load_(load),
        check_(check),
        file_(open_file(load.file_name, load.writes ? OpenMode::kModify : OpenMode::kRead, load.io)),
        blocks_(file_->size() / load.block_bytes) {
    if (blocks_ == 0) throw Error(ErrorCode::kUsage, "a device load needs a file of at least one block");
    const bool is_asynchronous = file_->is_asynchronous();
    workers_ = is_asynchronous ? std::min(load.threads, load.queue_depth) : load.queue_depth;
    depth_ = is_asynchronous ? load.queue_depth / workers_ : 1;
    memory_ = HostMemory(std::size_t{workers_} * depth_ * load.block_bytes);
    // Never written memory is one page of zeros, and equal blocks may be stored once.
    randombytes_buf(memory_.bytes().data(), memory_.bytes().size());
  }

  double run() {
    begin_ = Clock::now();
    end_ = begin_ + load_.warm_up + load_.time;
    {
      const auto others = start_all(
          workers_ - 1, [this](std::size_t i) { work(i + 1); }, [this](std::size_t) { is_stopped_ = true; });
      work(0);
    }
    if (error_) std::rethrow_exception(error_);
    std::ranges::sort(completions_);
    const double rate = completion_rate(completions_, load_.warm_up, load_.warm_up + load_.time);
    if (!(rate > 0)) {
      throw Error(ErrorCode::kUnavailable, "too few transfers completed to tell the rate of the device");
    }
    return rate * static_cast<double>(load_.block_bytes);
  }

 private:
  void work(std::size_t worker) try {
    std::vector<Transfer> transfers(depth_);
    const auto queue = file_->make_queue(depth_);
    const std::size_t bytes = depth_ * load_.block_bytes;
    const MutableBuffer memory{memory_.bytes().subspan(worker * bytes, bytes)};
    queue->register_memory({&memory, 1});
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      transfers[i].kind = load_.writes ? Transfer::Kind::kWrite : Transfer::Kind::kRead;
      transfers[i].memory =
          MutableBuffer{memory_.bytes().subspan(worker * bytes + i * load_.block_bytes, load_.block_bytes)};
      start(transfers[i], *queue);
    }
    std::vector<nanoseconds> completions;
    Clock::time_point checked = begin_;
    while (queue->in_flight() > 0) {
      Transfer& done = queue->wait();
      const auto now = Clock::now();
      if (done.error) std::rethrow_exception(done.error);
      completions.push_back(now - begin_);
      if (worker == 0 && check_ && now - checked > std::chrono::milliseconds(200)) {
        checked = now;
        check_();
      }
      if (now < end_ && !is_stopped_) start(done, *queue);
    }
    const std::lock_guard lock(mutex_);
    completions_.insert(completions_.end(), completions.begin(), completions.end());
  } catch (...) {
    is_stopped_ = true;
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }

  void start(Transfer& transfer, TransferQueue& queue) {
    transfer.offset = next_++ % blocks_ * load_.block_bytes;
    queue.start(transfer);
  }

  const DeviceLoad& load_;
  const std::function<void()>& check_;
  const std::unique_ptr<File> file_;
  const std::uint64_t blocks_;
  unsigned workers_ = 1, depth_ = 1;
  HostMemory memory_;
  Clock::time_point begin_, end_;
  std::atomic<std::uint64_t> next_ = 0;
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;  // for the rest
  std::vector<nanoseconds> completions_;
  std::exception_ptr error_;
};

}  // namespace

double completion_rate(std::span<const std::chrono::nanoseconds> completions, std::chrono::nanoseconds from,
                       std::chrono::nanoseconds to) {
  constexpr int kPoints = 1000;
  if (std::ranges::count_if(completions, [&](nanoseconds at) { return at >= from && at < to; }) < 2) return 0;
  const double length = std::chrono::duration<double>(to - from).count();
  double products = 0;
  double squares = 0;
  auto next = completions.begin();
  for (int i = 0; i < kPoints; ++i) {
    const double part = (i + 0.5) / kPoints;
    const nanoseconds at =
        from + nanoseconds(static_cast<std::int64_t>(part * static_cast<double>((to - from).count())));
    while (next != completions.end() && *next <= at) ++next;
    const double x = (part - 0.5) * length;
    products += x * static_cast<double>(next - completions.begin());
    squares += x * x;
  }
  return products / squares;
}

double measure_device(const DeviceLoad& load, const std::function<void()>& check) {
  return EndlessMover(load, check).run();
}

}  // namespace tzmark::bench
