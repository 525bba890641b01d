// The threads of a pipeline: they take the tasks that the schedule chooses, and move and compute without the lock.
//
// On an asynchronous path each thread keeps some transfers in flight and computes meanwhile, with a look at them every
// quarter of a millisecond or so: a disk may report its transfers only when all of them are through, and idles until
// then. Where calls block, and more of them than threads shall be in flight, there are workers for both: at most
// `threads` of them compute at a time. If the system starts fewer threads than asked for, the remaining ones, at least
// the calling thread, do all the work. Buffers are allocated once and reused; a piece costs a few short locks and no
// allocation.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "codec/piece.h"
#include "codec/piece_buffers.h"
#include "codec/pipeline_state.h"
#include "codec/schedule.h"

namespace tzmark {

namespace test {
struct PipelineView;  // describes a pipeline to tests
}

// A job whose pieces are known by the numbers of their slots. Calls for one slot never overlap.
class PieceWork {
 public:
  struct Step {
    std::size_t slot = 0;
    std::span<std::byte> memory;
    std::exception_ptr error;  // set if the piece has failed
  };

  virtual ~PieceWork() = default;
  // See PipelineJob. The first three are called under the lock; next returns null at the end, and chain does not throw.
  virtual const PipelinePiece* next(std::size_t slot, const Position* before) = 0;
  virtual std::size_t streams_wanted() const = 0;
  virtual void release(std::size_t slot) = 0;
  virtual std::size_t reads(std::size_t slot, std::span<std::byte> memory, FileTransfers& transfers) = 0;
  virtual void produce(std::size_t slot, std::span<std::byte> memory) = 0;
  virtual void chain(std::span<Step> steps, const KeepMoving& keep_moving) = 0;
  virtual void consume(std::size_t slot, std::span<std::byte> memory) = 0;
  // Whether the consume stage has lent the buffer, and blocks until it is given back.
  virtual bool is_lent(std::size_t slot) const = 0;
  virtual void take_back(std::size_t slot) = 0;
  virtual std::size_t writes(std::size_t slot, std::span<std::byte> memory, FileTransfers& transfers) = 0;
};

// Fits the buffers of a job, and what each thread takes besides, into that much memory: by fewer threads, if there is
// no room for a piece of each and two more. An explicit depth overrides it.
void fit_into(PipelineOptions& options, std::size_t memory_bytes, std::size_t thread_bytes);

class PipelineThreads {
 public:
  static constexpr std::size_t kStepsMax = 64;  // of one call of the chain stage

  // work_bytes: the approximate amount of work; a small amount starts few threads. file: its queues carry the
  // transfers, and transfers on other files block; null if the job makes no transfers. streams_max: of the job.
  PipelineThreads(const PipelineOptions& options, std::uint64_t work_bytes, File* file, std::size_t streams_max);

  std::size_t slot_count() const { return state_.slots.size(); }

  // Returns when all pieces have passed all stages. Throws the error at the lowest position. Once only.
  void run(PieceWork& job);
  // Where that error was: pieces before it have passed all stages. After run.
  Position error_position() const { return state_.error_position; }

 private:
  friend struct test::PipelineView;
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::size_t kNone = ~std::size_t{0};
  // What of a slot no decision depends on.
  struct Carried {
    PieceBuffers::Share share;
    std::span<std::byte> memory;  // of the share, once the piece begins
    FileTransfers transfers;
    std::size_t leads_to = kNone;  // the slot of the piece that the same thread moves next
  };

  std::unique_ptr<TransferQueue> make_queue() const;
  void work();
  void work_with(TransferQueue* queue, Lock& lock);
  void wait_for_task_or_transfer(Lock& lock);
  void wake_another();
  Task choose(const TransferQueue* queue, bool only_moves);
  bool begin(std::size_t slot, const TransferQueue* queue);
  const PipelinePiece* begin_one(std::size_t slot);
  void perform(Task task, TransferQueue* queue, Lock& lock);
  void compute(Task task, Lock& lock);
  void take_back(std::size_t slot, Lock& lock);
  void chain(std::size_t first, TransferQueue* queue, Lock& lock);
  void move_what_may(TransferQueue& queue);
  void move(std::size_t slot, bool is_read, TransferQueue* queue, Lock& lock);
  void move_one(std::size_t slot, bool is_read, TransferQueue* queue, Lock& lock);
  void plan_move(std::size_t slot, bool is_read, Lock& lock);
  void start_transfers(std::size_t slot, bool is_read, TransferQueue* queue, Lock& lock);
  std::exception_ptr move_at_once(FileTransfer& move, TransferQueue* queue) const;
  void reap(TransferQueue& queue, Lock& lock);
  void reap_what_is_through(TransferQueue& queue, Lock& lock);
  void settle(const Transfer& done);

  PieceWork* job_ = nullptr;
  File* const file_;
  const MutableBuffer registered_;
  const Schedule schedule_;
  const unsigned worker_count_;
  PipelineState state_;
  PieceBuffers buffers_;
  std::vector<Carried> carried_;  // by slot

  // On a cache line of its own, because threads that wait for it poll it.
  alignas(64) std::mutex mutex_;
  alignas(64) bool is_one_looking_ = false;
  std::condition_variable changed_;
  unsigned waiting_ = 0;
};

}  // namespace tzmark
