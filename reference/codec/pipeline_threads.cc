// Sizes of a pipeline, and the work of its threads.
#include "codec/pipeline_threads.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <utility>

#include "bytes/threads.h"

namespace tzmark {
namespace {

// Each decision looks at all slots, and another core has written to most of them since: more slots than this would cost
// more than the streams that they bring.
constexpr std::size_t kSlotsMax = 256;

std::size_t part_bytes(const PipelineOptions& options) {
  return options.part_bytes != 0 ? options.part_bytes : options.piece_bytes;
}

BufferSizes buffer_sizes(const PipelineOptions& options) { return {options.piece_bytes, part_bytes(options)}; }

// About.
std::uint64_t piece_count(const PipelineOptions& options, std::uint64_t work_bytes) {
  return 1 + work_bytes / options.piece_bytes;
}
std::uint64_t part_count(const PipelineOptions& options, std::uint64_t work_bytes) {
  return 1 + work_bytes / part_bytes(options);
}

unsigned at_most(std::uint64_t value, std::uint64_t limit) { return static_cast<unsigned>(std::min(value, limit)); }

unsigned transfers_in_flight(const PipelineOptions& options, std::uint64_t work_bytes, const File* file,
                             unsigned threads) {
  if (file == nullptr) return threads;
  const unsigned wanted = options.queue_depth != 0 ? options.queue_depth : file->queue_depth_default();
  return wanted != 0 ? at_most(wanted, part_count(options, work_bytes)) : threads;
}

Schedule make_schedule(const PipelineOptions& options, std::uint64_t work_bytes, const File* file) {
  Schedule schedule;
  schedule.is_asynchronous = file != nullptr && file->is_asynchronous();
  schedule.writes_take_turns = file != nullptr && file->writes_take_turns();
  schedule.begins_with_reads = options.reads;
  schedule.moves_data = file != nullptr;
  schedule.compute_threads_max = at_most(options.thread_count(), piece_count(options, work_bytes));
  schedule.transfers_max = transfers_in_flight(options, work_bytes, file, schedule.compute_threads_max);
  schedule.transfers_first = schedule.is_asynchronous || schedule.transfers_max > schedule.compute_threads_max;
  return schedule;
}

// How many pieces may be in use at least, whatever their memory. An explicit depth overrides limits, for its own
// transfers only.
std::size_t slots_needed(const PipelineOptions& options, const Schedule& schedule) {
  return options.queue_depth != 0 ? schedule.slots_wanted(1) : std::size_t{schedule.compute_threads_max} + 2;
}

std::size_t slot_count(const PipelineOptions& options, std::uint64_t work_bytes, const Schedule& schedule,
                       std::size_t streams_max) {
  const std::size_t most = std::max(kSlotsMax, slots_needed(options, schedule));
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(std::min(schedule.slots_wanted(streams_max), most), part_count(options, work_bytes) + 1));
}

// To how many pieces one leads on at most, each of them to the next. Others are left to other threads.
constexpr std::size_t kLedMax = 4;

std::size_t led_count(const PipelineOptions& options, const Schedule& schedule) {
  return options.leads_on ? kLedMax * schedule.compute_threads_max : 0;
}

std::size_t buffer_count(const PipelineOptions& options, const Schedule& schedule, std::size_t slots) {
  const std::size_t affordable = options.memory_bytes_max / buffer_sizes(options).buffer_bytes;
  return std::min(slots, std::max(affordable, slots_needed(options, schedule)));
}

std::optional<PieceBuffers::Pinning> pinning_of(const PipelineOptions& options) {
  if (!options.pins_for) return std::nullopt;
  return PieceBuffers::Pinning{.device = *options.pins_for, .holds_secrets = options.holds_secrets};
}

std::size_t number_of(const FileTransfers& transfers, const Transfer& transfer) {
  const auto found = std::ranges::find_if(transfers, [&](const FileTransfer& t) { return &t.transfer == &transfer; });
  return static_cast<std::size_t>(found - transfers.begin());
}

// A thread holds the lock for a microsecond or so, and one that sleeps until it is free takes many to wake.
void acquire(std::unique_lock<std::mutex>& lock) {
  constexpr int kPausesMax = 128;
  for (int pauses = 2; pauses <= kPausesMax; pauses *= 2) {
    if (lock.try_lock()) return;
#if defined(__x86_64__)
    for (int i = 0; i < pauses; ++i) __builtin_ia32_pause();
#endif
  }
  lock.lock();
}

}  // namespace

void fit_into(PipelineOptions& options, std::size_t memory_bytes, std::size_t thread_bytes) {
  const std::size_t buffer_bytes = buffer_sizes(options).buffer_bytes, of_two_more = 2 * buffer_bytes;
  const std::size_t threads_max =
      memory_bytes > of_two_more ? (memory_bytes - of_two_more) / (buffer_bytes + thread_bytes) : 0;
  options.threads = at_most(options.thread_count(), std::max<std::size_t>(1, threads_max));
  options.memory_bytes_max = memory_bytes - std::min(memory_bytes, options.threads * thread_bytes);
}

PipelineThreads::PipelineThreads(const PipelineOptions& options, std::uint64_t work_bytes, File* file,
                                 std::size_t streams_max)
    : file_(file),
      registered_(options.registered),
      schedule_(make_schedule(options, work_bytes, file)),
      worker_count_(schedule_.is_asynchronous || !schedule_.transfers_first
                        ? schedule_.compute_threads_max
                        : schedule_.compute_threads_max + schedule_.transfers_max),
      state_(tzmark::slot_count(options, work_bytes, schedule_, streams_max) + led_count(options, schedule_)),
      buffers_(buffer_sizes(options),
               buffer_count(options, schedule_, state_.slots.size() - led_count(options, schedule_)),
               // A huge page would be too much memory for little work.
               piece_count(options, work_bytes) > 1 ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall,
               pinning_of(options)),
      carried_(state_.slots.size()) {}

void PipelineThreads::run(PieceWork& job) {
  job_ = &job;
  state_.on_release = [this](std::size_t slot) {
    Carried& carried = carried_[slot];
    buffers_.give_back(std::exchange(carried.share, {}));
    carried.memory = {};
    carried.leads_to = kNone;
    job_->release(slot);
  };
  {
    const auto helpers = start_threads(worker_count_ - 1, [this](std::size_t) { work(); });
    work();
  }
  // Where a thread has died of its queue, pieces may be left.
  for (std::size_t i = 0; i < state_.slots.size(); ++i) {
    if (state_.slots[i].state != SlotState::kLent) continue;
    try {
      job.take_back(i);
    } catch (...) {
      state_.fail(state_.slots[i], std::current_exception());
    }
  }
  if (state_.error) std::rethrow_exception(state_.error);
}

std::unique_ptr<TransferQueue> PipelineThreads::make_queue() const {
  if (file_ == nullptr) return nullptr;
  const unsigned threads = schedule_.compute_threads_max;
  auto queue = file_->make_queue(schedule_.is_asynchronous ? (schedule_.transfers_max + threads - 1) / threads : 1);
  if (registered_.size > 0) queue->register_memory({&registered_, 1});
  return queue;
}

void PipelineThreads::work() {
  std::unique_ptr<TransferQueue> queue;
  try {
    queue = make_queue();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    state_.fail_at({}, std::current_exception());
    state_.exhausted = true;
    changed_.notify_all();
    return;
  }
  Lock lock(mutex_);
  try {
    work_with(queue.get(), lock);
  } catch (...) {
    // Destroying the broken queue releases the memory of its transfers, which are lost.
    if (!lock.owns_lock()) acquire(lock);
    // Less than an error of the first piece, which has its place.
    state_.fail_at({}, std::current_exception(), ~std::size_t{0});
    state_.exhausted = true;
    state_.begin_loss(queue.get(), &lock);
    lock.unlock();
    queue.reset();
    acquire(lock);
    state_.end_loss(&lock);
    changed_.notify_all();
  }
}

void PipelineThreads::work_with(TransferQueue* queue, Lock& lock) {
  for (;;) {
    // Completions are handled before this thread computes, so that another thread can continue with them.
    if (schedule_.is_asynchronous) reap_what_is_through(*queue, lock);
    const Task task = choose(queue, false);
    if (task.kind != TaskKind::kNone) {
      perform(task, queue, lock);
    } else if (schedule_.is_asynchronous && queue->in_flight() > 0) {
      if (state_.computing > 0 && !is_one_looking_) {
        wait_for_task_or_transfer(lock);
      } else {
        reap(*queue, lock);
      }
    } else if (state_.exhausted && state_.used == 0) {
      changed_.notify_all();
      return;
    } else {
      ++waiting_;
      changed_.wait(lock);
      --waiting_;
    }
  }
}

// What another thread computes may become work for this one before its own transfers are through, which are looked at
// in between. One thread at a time does so, and only then, because each look costs some microseconds.
void PipelineThreads::wait_for_task_or_transfer(Lock& lock) {
  constexpr std::chrono::microseconds kBetweenLooks{100};
  wake_another();
  is_one_looking_ = true;
  ++waiting_;
  changed_.wait_for(lock, kBetweenLooks);
  --waiting_;
  is_one_looking_ = false;
}

// Called before a thread gives up the lock to do something: wakes one that waits if there is a task for it, which wakes
// the next one. To wake all of them each time would cost more than many tasks.
void PipelineThreads::wake_another() {
  if (waiting_ == 0) return;
  state_.release_dropped();
  const bool has_room = schedule_.is_asynchronous || state_.reading + state_.writing < schedule_.transfers_max;
  if (schedule_.has_task(
          state_,
          {.has_room = has_room, .has_buffer = buffers_.has_room(), .streams_wanted = job_->streams_wanted()})) {
    changed_.notify_one();
  }
}

// Chooses what this thread does next, and begins the next piece if that is it. The lock is held.
Task PipelineThreads::choose(const TransferQueue* queue, bool only_moves) {
  for (;;) {
    state_.release_dropped();
    const bool has_room = schedule_.is_asynchronous ? queue->in_flight() < queue->depth()
                                                    : state_.reading + state_.writing < schedule_.transfers_max;
    const Task task = schedule_.choose(state_, {.queue = queue,
                                                .has_room = has_room,
                                                .has_buffer = buffers_.has_room(),
                                                .only_moves = only_moves,
                                                .streams_wanted = job_->streams_wanted()});
    if (task.kind != TaskKind::kBegin) return task;
    if (begin(task.slot, queue)) return {TaskKind::kRead, task.slot};
  }
}

// Puts the next piece into a slot, and those to which it leads on into others; returns false if there is none.
bool PipelineThreads::begin(std::size_t slot, const TransferQueue* queue) {
  const PipelinePiece* piece = begin_one(slot);
  if (piece == nullptr) return false;
  for (std::size_t led = 0; led < kLedMax && piece->leads_on && buffers_.has_room(); ++led) {
    const auto free = std::ranges::find(state_.slots, SlotState::kFree, &Slot::state);
    if (free == state_.slots.end()) break;
    const auto next = static_cast<std::size_t>(free - state_.slots.begin());
    piece = begin_one(next);
    if (piece == nullptr) break;
    state_.lead(*free, queue);
    carried_[std::exchange(slot, next)].leads_to = next;
  }
  return true;
}

// Returns the piece that is in the slot then, or null.
const PipelinePiece* PipelineThreads::begin_one(std::size_t slot) {
  try {
    while (const PipelinePiece* const piece = job_->next(slot, state_.error ? &state_.error_position : nullptr)) {
      if (state_.error && state_.error_position < piece->position) {
        job_->release(slot);
        continue;
      }
      if (!piece->has_own_memory) carried_[slot].share = buffers_.take(piece->is_part);
      state_.occupy(state_.slots[slot], *piece);
      return piece;
    }
  } catch (...) {
    // The error counts after all pieces that next has returned.
    state_.fail_at({~std::size_t{0}, 0}, std::current_exception());
  }
  state_.exhausted = true;
  return nullptr;
}

void PipelineThreads::perform(Task task, TransferQueue* queue, Lock& lock) {
  switch (task.kind) {
    case TaskKind::kRead:
    case TaskKind::kWrite:
      return move(task.slot, task.kind == TaskKind::kRead, queue, lock);
    case TaskKind::kChain:
    case TaskKind::kFewChains:
      return chain(task.slot, queue, lock);
    case TaskKind::kTakeBack:
      return take_back(task.slot, lock);
    default:
      return compute(task, lock);
  }
}

void PipelineThreads::compute(Task task, Lock& lock) {
  Slot& s = state_.slots[task.slot];
  s.state = SlotState::kComputing;
  ++state_.computing;
  wake_another();
  lock.unlock();
  std::exception_ptr error;
  try {
    if (task.kind == TaskKind::kProduce) {
      job_->produce(task.slot, carried_[task.slot].memory);
    } else {
      job_->consume(task.slot, carried_[task.slot].memory);
    }
  } catch (...) {
    error = std::current_exception();
  }
  acquire(lock);
  --state_.computing;
  s.state = task.kind == TaskKind::kProduce ? SlotState::kProduced
            : job_->is_lent(task.slot)      ? SlotState::kLent
                                            : SlotState::kConsumed;
  if (error) state_.fail(s, error);
}

void PipelineThreads::take_back(std::size_t slot, Lock& lock) {
  Slot& s = state_.slots[slot];
  s.state = SlotState::kComputing;
  wake_another();
  lock.unlock();
  std::exception_ptr error;
  try {
    job_->take_back(slot);
  } catch (...) {
    error = std::current_exception();
  }
  acquire(lock);
  s.state = SlotState::kConsumed;
  if (error) state_.fail(s, error);
}

// Takes the slot and others whose chain stage is next. The lock is held before and after.
void PipelineThreads::chain(std::size_t first, TransferQueue* queue, Lock& lock) {
  std::array<std::size_t, kStepsMax> taken;
  std::array<PieceWork::Step, kStepsMax> steps;
  // A queue that breaks is no error of the steps.
  std::exception_ptr broken;
  const auto move_meanwhile = [&] {
    try {
      if (!broken) move_what_may(*queue);
    } catch (...) {
      broken = std::current_exception();
    }
  };
  KeepMoving keep_moving;
  if (schedule_.is_asynchronous) keep_moving = std::ref(move_meanwhile);  // allocates nothing
  const std::size_t count = schedule_.take_chains(state_, job_->streams_wanted(), first, taken);
  for (std::size_t i = 0; i < count; ++i) {
    state_.slots[taken[i]].chaining = true;
    steps[i] = {taken[i], carried_[taken[i]].memory, {}};
  }
  ++state_.computing;
  wake_another();
  lock.unlock();
  job_->chain(std::span(steps).first(count), keep_moving);
  acquire(lock);
  --state_.computing;
  for (std::size_t i = 0; i < count; ++i) state_.finish_chain(state_.slots[taken[i]], steps[i].error);
  if (broken) std::rethrow_exception(broken);
}

// Completes the transfers that are through, and starts those that are next.
void PipelineThreads::move_what_may(TransferQueue& queue) {
  Lock lock(mutex_);
  reap_what_is_through(queue, lock);
  for (;;) {
    const Task task = choose(&queue, true);
    if (task.kind == TaskKind::kNone) break;
    move(task.slot, task.kind == TaskKind::kRead, &queue, lock);
  }
  wake_another();
}

// Starts the transfers of a piece, and then of those to which it leads on. The lock is held before and after.
void PipelineThreads::move(std::size_t slot, bool is_read, TransferQueue* queue, Lock& lock) {
  while (slot != kNone) {
    Slot& s = state_.slots[slot];
    if (s.is_led) state_.come_to(s);
    // The thread that plans a piece goes on to the next one, not one that helps it.
    const bool is_planned = s.next_transfer < s.transfer_count;
    if (!state_.is_dropped(s)) move_one(slot, is_read, queue, lock);
    if (is_planned) return;
    slot = std::exchange(carried_[slot].leads_to, kNone);
  }
}

// As far as the queue accepts them.
void PipelineThreads::move_one(std::size_t slot, bool is_read, TransferQueue* queue, Lock& lock) {
  Slot& s = state_.slots[slot];
  const bool is_planned = s.next_transfer < s.transfer_count;
  s.state = is_read ? SlotState::kReading : SlotState::kWriting;
  // No other thread may find the piece complete between two of its transfers.
  ++s.pending;
  unsigned& now = is_read ? state_.reading : state_.writing;
  ++now;
  wake_another();
  try {
    if (!is_planned) {
      s.queue = queue;
      plan_move(slot, is_read, lock);
      if (!schedule_.is_asynchronous && s.transfer_count > 1) wake_another();
    }
    start_transfers(slot, is_read, queue, lock);
  } catch (...) {
    // Other threads still move pieces before this one.
    if (!lock.owns_lock()) acquire(lock);
    --now;
    throw;
  }
  --now;
  --s.pending;
  state_.finish_move(s);
}

// Fills in the transfers of a piece. The lock is held before and after.
void PipelineThreads::plan_move(std::size_t slot, bool is_read, Lock& lock) {
  Carried& carried = carried_[slot];
  lock.unlock();
  std::size_t count = 0;
  std::exception_ptr error;
  try {
    for (FileTransfer& transfer : carried.transfers) transfer.transfer.spare_bytes = 0;
    if (is_read) carried.memory = buffers_.memory_of(carried.share);
    count = is_read ? job_->reads(slot, carried.memory, carried.transfers)
                    : job_->writes(slot, carried.memory, carried.transfers);
  } catch (...) {
    error = std::current_exception();
  }
  acquire(lock);
  Slot& s = state_.slots[slot];
  s.transfer_count = static_cast<std::uint16_t>(count);
  s.next_transfer = 0;
  if (error) state_.fail(s, error);
}

void PipelineThreads::start_transfers(std::size_t slot, bool is_read, TransferQueue* queue, Lock& lock) {
  Slot& s = state_.slots[slot];
  while (s.next_transfer < s.transfer_count && !s.failed) {
    const std::size_t number = s.next_transfer;
    FileTransfer& next = carried_[slot].transfers[number];
    const bool is_queued = schedule_.is_asynchronous && next.file == file_;
    if (is_queued && queue->in_flight() == queue->depth()) break;
    ++s.next_transfer;
    if (next.transfer.memory.size == 0) continue;
    next.transfer.kind = is_read ? Transfer::Kind::kRead : Transfer::Kind::kWrite;
    next.transfer.owner = &s;
    if (is_queued) ++s.pending;
    lock.unlock();
    std::exception_ptr error;
    if (is_queued) {
      queue->start(next.transfer);
    } else {
      error = move_at_once(next, queue);
    }
    acquire(lock);
    if (error) state_.fail(s, error, number);
  }
}

// Makes a transfer that blocks.
std::exception_ptr PipelineThreads::move_at_once(FileTransfer& move, TransferQueue* queue) const {
  try {
    if (move.file == file_) {
      queue->start(move.transfer);
      return queue->wait().error;
    }
    if (move.transfer.kind == Transfer::Kind::kRead) {
      move.file->read_at(move.transfer.offset, move.transfer.memory);
    } else {
      move.file->write_at(move.transfer.offset, move.transfer.memory);
    }
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void PipelineThreads::reap(TransferQueue& queue, Lock& lock) {
  wake_another();
  lock.unlock();
  const Transfer& done = queue.wait();
  acquire(lock);
  settle(done);
}

void PipelineThreads::reap_what_is_through(TransferQueue& queue, Lock& lock) {
  while (queue.in_flight() > 0) {
    lock.unlock();
    const Transfer* const done = queue.poll();
    acquire(lock);
    if (done == nullptr) return;
    settle(*done);
  }
}

void PipelineThreads::settle(const Transfer& done) {
  Slot& s = *static_cast<Slot*>(done.owner);
  --s.pending;
  const auto slot = static_cast<std::size_t>(&s - state_.slots.data());
  if (done.error) state_.fail(s, done.error, number_of(carried_[slot].transfers, done));
  state_.finish_move(s);
}

}  // namespace tzmark
