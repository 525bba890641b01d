// Reads, computes and writes in pieces of a fixed size, with several threads and many transfers in flight.
//
// A job deals out pieces in order. Each piece has a buffer and passes through five stages:
//   reads    transfers that fill the buffer; the I/O path keeps them in flight while threads compute
//   produce  any thread, any order: decrypts, and hashes what can be hashed independently
//   chain    in order and one at a time within a chain: what depends on the previous piece, such as SHA-256
//   consume  any thread, any order: encrypts, or delivers the result
//   writes   transfers that empty the buffer
// A piece whose writes do not depend on its chain stage may be written first, so that a device works from the start:
// its chain stage then comes while its transfers are in flight, or after them.
// Different chains run in parallel. So a single huge tensor uses every core for everything but its SHA-256, and several
// tensors use every core for that too. A thread takes pieces of several chains at once, as many streams as the job
// wants, for SHA-256 of several streams side by side is faster than of one after another; it takes fewer only if it has
// nothing else to do.
//
// On an asynchronous path each thread keeps some transfers in flight and computes meanwhile, with a look at them every
// quarter of a millisecond or so: a disk may report its transfers only when all of them are through, and idles until
// then. On a path whose calls block, and where more of them than threads shall be in flight, there are workers for
// both: at most `threads` of them compute at a time. If the system starts fewer threads than asked for, the remaining
// ones, at least the calling thread, do all the work. Buffers are allocated once and reused; a piece costs a few short
// locks and no allocation. The error at the lowest position wins: pieces before it are finished, later ones are
// dropped.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <compare>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <tuple>
#include <vector>

#include "bytes/threads.h"
#include "tzmark/device_memory.h"
#include "tzmark/error.h"
#include "tzmark/first_touch.h"
#include "tzmark/io.h"
#include "tzmark/memory.h"

namespace tzmark {

struct PipelineOptions {
  unsigned threads = 0;  // compute threads; 0 = one per core
  std::size_t piece_bytes = 2 << 20;
  std::size_t part_bytes = 0;     // the most of a piece with is_part; 0 = piece_bytes
  unsigned queue_depth = 0;       // transfers in flight, summed over all threads; 0 = the I/O path's default
  bool reads = true;              // whether pieces begin with transfers; otherwise they begin at any time
  bool pins_memory = false;       // pins the buffers, so that copies between them and a GPU are fast
  MutableBuffer registered = {};  // memory outside the buffers that all transfers of the job use; may be empty

  // Throws kUsage if a size is too small.
  void check() const {
    constexpr std::size_t kBytesMin = 4096;
    if (piece_bytes < kBytesMin) throw Error(ErrorCode::kUsage, "the piece size is below the minimum of 4096 bytes");
    if (part_bytes != 0 && part_bytes < kBytesMin) {
      throw Error(ErrorCode::kUsage, "the part size is below the minimum of 4096 bytes");
    }
  }
  unsigned thread_count() const { return threads != 0 ? threads : core_count(); }
};

// The order of pieces: of several errors, the one at the lowest position is thrown.
struct Position {
  std::size_t tensor = 0;
  std::uint64_t offset = 0;
  auto operator<=>(const Position&) const = default;
};

// The progress of a chain. The job keeps it alive as long as the chain has pieces.
struct Chain {
  std::uint64_t next = 0;
};

struct PipelinePiece {
  Position position;
  Chain* chain = nullptr;      // null: the piece waits for no other
  std::uint64_t in_chain = 0;  // number of the piece within its chain
  std::size_t streams = 1;     // how many the chain stage can process side by side; 0 skips the stage
  bool has_own_memory = false;
  bool is_part = false;        // has at most part_bytes
  bool is_critical = false;    // its chain would end last: it comes first in the chain stage, and alone
  bool chains_late = false;    // the chain stage neither changes the memory nor determines what is written
  std::exception_ptr failure;  // why the job could not plan this piece; thrown at its position
};

struct FileTransfer {
  File* file = nullptr;
  Transfer transfer;
};
inline constexpr std::size_t kTransfersOfPieceMax = 40;
// A transfer of less costs a device as much.
inline constexpr std::size_t kTransferBytesMin = 4096;
using FileTransfers = std::array<FileTransfer, kTransfersOfPieceMax>;

// Splits the first transfer, if it is larger, into several of about that many bytes, at offsets that are multiples of
// it; the last one takes up to kTransferBytesMin more. Returns how many there are.
inline std::size_t split_transfer(FileTransfers& transfers, std::size_t bytes) {
  const FileTransfer whole = transfers[0];
  if (whole.transfer.memory.size <= bytes + kTransferBytesMin) return 1;
  const std::uint64_t end = whole.transfer.offset + whole.transfer.memory.size;
  std::uint64_t at = whole.transfer.offset;
  std::size_t count = 0;
  while (count == 0 || at < end) {
    const std::uint64_t border = at - at % bytes + bytes;
    const bool is_last = count + 1 == transfers.size() || end < border + kTransferBytesMin;
    const std::uint64_t next = is_last ? end : border;
    FileTransfer& one = transfers[count++];
    one.file = whole.file;
    one.transfer.spare_bytes = is_last ? whole.transfer.spare_bytes : 0;
    one.transfer.kind = whole.transfer.kind;
    one.transfer.offset = at;
    one.transfer.memory = whole.transfer.memory;
    one.transfer.memory.data += at - whole.transfer.offset;
    one.transfer.memory.size = static_cast<std::size_t>(next - at);
    at = next;
  }
  return count;
}

// Lets transfers proceed on an asynchronous path: completes what is through, and starts what is next. Empty on other
// paths. A chain stage calls it every quarter of a millisecond or so, where it has no lock.
using KeepMoving = std::function<void()>;

// A piece in the chain stage, which sets error if the piece has failed.
template <typename Piece>
struct ChainStep {
  Piece* piece = nullptr;
  std::span<std::byte> memory;
  std::exception_ptr error;
};

// What a pipeline runs. memory is the piece's buffer, page-aligned and one page larger than a piece; it is empty for a
// piece that has its own memory.
template <typename Job>
concept PipelineJob = std::derived_from<typename Job::Piece, PipelinePiece> &&
    std::default_initializable<typename Job::Piece> &&
    requires(Job& job, typename Job::Piece& piece, const Position* before, std::span<std::byte> memory,
             FileTransfers& transfers, std::span<ChainStep<typename Job::Piece>> steps, const KeepMoving& keep_moving) {
  // Fills in the next piece; false at the end. Called under a lock. Pieces after *before, if given, are not needed.
  { job.next(piece, before) } -> std::same_as<bool>;
  // The most streams that a thread shall process at once; does not change.
  { job.streams_max() } -> std::same_as<std::size_t>;
  // How many of them a thread shall wait for now, as long as it has other work. Called under the same lock as next.
  { job.streams_wanted() } -> std::same_as<std::size_t>;
  // Fills in the transfers, and returns how many there are.
  { job.reads(piece, memory, transfers) } -> std::same_as<std::size_t>;
  { job.produce(piece, memory) } -> std::same_as<void>;
  // Pieces of different chains, or of none.
  { job.chain(steps, keep_moving) } -> std::same_as<void>;
  { job.consume(piece, memory) } -> std::same_as<void>;
  { job.writes(piece, memory, transfers) } -> std::same_as<std::size_t>;
};

template <PipelineJob Job>
class Pipeline {
 public:
  // work_bytes: the approximate amount of work; a small amount starts few threads. file: its queues carry the
  // transfers, and transfers on other files block; null if the job makes no transfers.
  Pipeline(Job& job, const PipelineOptions& options, std::uint64_t work_bytes, File* file)
      : job_(job),
        file_(file),
        asynchronous_(file != nullptr && file->is_asynchronous()),
        writes_take_turns_(file != nullptr && file->writes_take_turns()),
        piece_count_(1 + work_bytes / options.piece_bytes),
        part_count_(1 + work_bytes / part_bytes(options)),
        thread_count_(static_cast<unsigned>(std::min<std::uint64_t>(options.thread_count(), piece_count_))),
        depth_(transfers_in_flight(options)),
        worker_count_(asynchronous_ || depth_ <= thread_count_ ? thread_count_ : thread_count_ + depth_),
        transfers_first_(asynchronous_ || worker_count_ > thread_count_),
        reads_(options.reads),
        memory_bytes_(whole_pages(options.piece_bytes)),
        part_memory_bytes_(part_bytes(options) < options.piece_bytes ? whole_pages(part_bytes(options)) : 0),
        slots_(slot_count(options, job.streams_max())),
        // A huge page would be too much memory for little work.
        memory_(slots_.size() * (memory_bytes_ + part_memory_bytes_),
                piece_count_ > 1 ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall),
        first_touch_(piece_count_ > 1 ? memory_.bytes() : std::span<std::byte>()),
        pinned_(options.pins_memory ? PinnedRange(memory_.bytes()) : PinnedRange()),
        registered_(options.registered) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].memory = memory_.bytes().subspan(i * memory_bytes_, memory_bytes_);
      // Next to each other, so that parts touch no more memory than they need.
      slots_[i].part_memory =
          memory_.bytes().subspan(slots_.size() * memory_bytes_ + i * part_memory_bytes_, part_memory_bytes_);
    }
  }

  // Returns when all pieces have passed all stages. Throws the error at the lowest position.
  void run() {
    {
      const auto helpers = start_threads(worker_count_ - 1, [this](std::size_t) { work(); });
      work();
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  enum class State { kFree, kReading, kRead, kComputing, kProduced, kChained, kConsumed, kWriting, kWritten };
  struct Slot {
    State state = State::kFree;
    typename Job::Piece piece{};
    std::span<std::byte> memory, part_memory;
    FileTransfers transfers;
    std::size_t transfer_count = 0, next_transfer = 0;  // planned ones, and the first of them that nobody has started
    std::size_t pending = 0;                            // transfers in flight, and threads that start some
    bool failed = false;                                // whether one of them failed, which ends the piece
    bool chaining = false;                              // in the chain stage
    bool chained = false;                               // through it
    // Of the thread that has planned the transfers; on an asynchronous path it carries them.
    const void* queue = nullptr;
  };
  enum class Kind { kNone, kRead, kProduce, kChain, kFewChains, kConsume, kWrite };
  struct Task {
    Kind kind = Kind::kNone;
    Slot* slot = nullptr;
  };

  static constexpr std::size_t kMemoryBytesMax = std::size_t{192} << 20;
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kStepsMax = 64;

  unsigned transfers_in_flight(const PipelineOptions& options) const {
    if (file_ == nullptr) return thread_count_;
    const unsigned wanted = options.queue_depth != 0 ? options.queue_depth : file_->queue_depth_default();
    return wanted != 0 ? static_cast<unsigned>(std::min<std::uint64_t>(wanted, part_count_)) : thread_count_;
  }

  static std::size_t part_bytes(const PipelineOptions& options) {
    return options.part_bytes != 0 ? options.part_bytes : options.piece_bytes;
  }
  // The room for so many bytes that begin anywhere in a page.
  static std::size_t whole_pages(std::size_t bytes) { return (bytes + 2 * kPageBytes - 1) / kPageBytes * kPageBytes; }

  std::size_t slots_wanted(std::size_t streams) const {
    return std::size_t{depth_} + (1 + streams) * thread_count_ + 1;
  }

  std::size_t slot_count(const PipelineOptions& options, std::size_t streams_max) const {
    const std::size_t wanted = slots_wanted(streams_max);
    // An explicit depth overrides the memory limit, for its own transfers only.
    const std::size_t needed = options.queue_depth != 0 ? slots_wanted(1) : thread_count_ + 2;
    const std::size_t affordable = std::max(kMemoryBytesMax / (memory_bytes_ + part_memory_bytes_), needed);
    return static_cast<std::size_t>(std::min<std::uint64_t>(std::min(wanted, affordable), part_count_ + 1));
  }

  std::unique_ptr<TransferQueue> make_queue() {
    if (file_ == nullptr) return nullptr;
    auto queue = file_->make_queue(asynchronous_ ? (depth_ + thread_count_ - 1) / thread_count_ : 1);
    if (registered_.size > 0) queue->register_memory({&registered_, 1});
    return queue;
  }

  bool dropped(const Slot& s) const { return s.failed || (error_ && error_position_ < s.piece.position); }

  // transfer: of the piece; of several that fail, the first one is the error, for those before it have been started.
  void fail(Slot& s, std::exception_ptr error, std::size_t transfer = 0) {
    s.failed = true;
    fail_at(s.piece.position, std::move(error), transfer);
  }
  void fail_at(Position position, std::exception_ptr error, std::size_t transfer = 0) {
    if (error_ && !(std::tie(position, transfer) < std::tie(error_position_, error_transfer_))) return;
    error_ = std::move(error);
    error_position_ = position;
    error_transfer_ = transfer;
  }

  void release(Slot& s) {
    s.state = State::kFree;
    s.failed = s.chained = false;
    s.transfer_count = s.next_transfer = 0;
    used_streams_ -= s.piece.streams;
    s.piece = {};
    --used_;
  }

  // Whether the chain stage is next, or one of two possible steps.
  bool may_chain(const Slot& s) const {
    if (s.piece.streams == 0 || s.chaining || s.chained || dropped(s)) return false;
    const bool late = s.state == State::kConsumed || s.state == State::kWriting || s.state == State::kWritten;
    if (s.piece.chains_late ? !late : s.state != State::kProduced) return false;
    return s.piece.chain == nullptr || s.piece.chain->next == s.piece.in_chain;
  }

  // Which transfers of a piece are planned, but not started yet, and may be by a thread with this queue: where calls
  // block, each of the workers for them takes one, so that a piece is complete soon after its first byte.
  Kind unfinished_move(const Slot& s, const TransferQueue* queue) const {
    if (s.next_transfer == s.transfer_count || dropped(s)) return Kind::kNone;
    if (asynchronous_ ? s.queue != queue : !transfers_first_) return Kind::kNone;
    return s.state == State::kReading ? Kind::kRead : Kind::kWrite;
  }

  // Returns the next step of a slot besides the chain stage. Frees the slot if its piece was dropped.
  Kind next_step(Slot& s) {
    if (s.state == State::kFree || s.state == State::kComputing || s.pending > 0) return Kind::kNone;
    if (dropped(s)) {
      if (!s.chaining) release(s);
      return Kind::kNone;
    }
    switch (s.state) {
      case State::kRead:
        return Kind::kProduce;
      case State::kProduced:
        return s.piece.streams == 0 || s.piece.chains_late ? Kind::kConsume : Kind::kNone;
      case State::kChained:
        return Kind::kConsume;
      case State::kConsumed:
        return Kind::kWrite;
      default:
        return Kind::kNone;
    }
  }

  // Lower comes first. Transfers that proceed beside the cores start before a thread computes; otherwise the step comes
  // first that unblocks others. Workers for transfers shall find pieces that are ready, before the chain stage occupies
  // all cores: writes of encrypted tensors with SHA-256 gain a tenth. On an asynchronous path, whose threads start the
  // transfers, that costs a tenth. Where writes to a file take turns, a second writer would only wait for the first.
  int priority(Kind kind) const {
    // none, read, produce, chain, few chains, consume, write
    constexpr std::array<int, 7> kTransfersFirst = {8, 1, 4, 3, 5, 2, 0};
    constexpr std::array<int, 7> kWorkersForTransfers = {8, 1, 3, 4, 5, 2, 0};
    constexpr std::array<int, 7> kComputesFirst = {8, 5, 4, 2, 6, 1, 3};
    if (kind == Kind::kWrite && writes_take_turns_) return writing_ == 0 ? 0 : 7;
    const auto& order = asynchronous_ ? kTransfersFirst : transfers_first_ ? kWorkersForTransfers : kComputesFirst;
    return order[static_cast<std::size_t>(kind)];
  }

  // Whether a thread leaves so few streams alone until its own reads, which wake it, bring more: half as many take a
  // core almost as long. In reads of encrypted tensors with SHA-256 by uring-direct, a core with two streams or more
  // computes for 14 % less time. coming: such reads.
  bool waits_for_streams(std::size_t streams, std::size_t coming) const {
    // With few slots no more may ever come together.
    return coming > 0 && !exhausted_ && 2 * streams < std::min(streams_wanted(), slots_.size() / 2);
  }
  // Whether the slot's transfers are this queue's reads for the chain stage. Critical pieces go through it alone.
  bool brings_streams(const Slot& s, const TransferQueue* queue) const {
    return asynchronous_ && s.queue == queue && s.state == State::kReading && s.pending > 0 && s.piece.streams > 0 &&
           !s.piece.is_critical;
  }

  // Chooses what this thread does next. The lock is held. room: whether the thread's queue accepts another transfer.
  // only_moves: leaves out what computes.
  Task choose(const TransferQueue* queue, bool room, bool only_moves = false) {
    const bool may_compute = !only_moves && computing_ < thread_count_;
    Task best, chain;
    std::size_t streams = 0, coming = 0;
    Slot* free = nullptr;
    const auto consider = [this](Task& other, Kind kind, Slot& s) {
      const bool better = priority(kind) < priority(other.kind) || (kind == other.kind && precedes(s, *other.slot));
      if (better) other = {kind, &s};
    };
    for (Slot& s : slots_) {
      const Kind kind = next_step(s);
      if (s.state == State::kFree) free = &s;
      if (kind != Kind::kNone && (kind == Kind::kWrite ? room : may_compute)) consider(best, kind, s);
      const Kind unfinished = room ? unfinished_move(s, queue) : Kind::kNone;
      if (unfinished != Kind::kNone) consider(best, unfinished, s);
      if (brings_streams(s, queue)) ++coming;
      if (!may_compute || !may_chain(s)) continue;
      consider(chain, Kind::kChain, s);
      streams += s.piece.streams;
    }
    if (chain.slot != nullptr) {
      if (!chain.slot->piece.is_critical && streams < streams_wanted()) chain.kind = Kind::kFewChains;
      // A critical chain ends last in any case.
      const bool is_urgent = chain.slot->piece.is_critical && best.kind == Kind::kProduce;
      const bool waits = chain.kind == Kind::kFewChains && waits_for_streams(streams, coming);
      if (!waits && (is_urgent || priority(chain.kind) < priority(best.kind))) best = chain;
    }
    // A piece that begins without transfers moves nothing.
    const bool may_begin = free != nullptr && !holds_enough() && !exhausted_ && (reads_ ? room : !only_moves) &&
                           (file_ != nullptr || may_compute);
    if (may_begin && priority(Kind::kRead) < priority(best.kind) && begin(*free)) return {Kind::kRead, free};
    return best;
  }

  // Whether a thread with an empty queue would find a task. The lock is held.
  bool has_task() {
    const bool may_compute = computing_ < thread_count_;
    const bool room = asynchronous_ || reading_ + writing_ < depth_;
    bool is_free = false;
    for (Slot& s : slots_) {
      const Kind kind = next_step(s);
      if (kind != Kind::kNone && (kind == Kind::kWrite ? room : may_compute)) return true;
      if (may_compute && may_chain(s)) return true;
      if (!asynchronous_ && room && unfinished_move(s, nullptr) != Kind::kNone) return true;
      is_free = is_free || s.state == State::kFree;
    }
    return is_free && !holds_enough() && !exhausted_ && (room || !reads_) && (file_ != nullptr || may_compute);
  }

  // Called before a thread gives up the lock to do something: wakes one that waits if there is a task for it, which
  // wakes the next one. To wake all of them each time would cost more than many tasks.
  void wake_another() {
    if (waiting_ > 0 && has_task()) changed_.notify_one();
  }

  static bool precedes(const Slot& a, const Slot& b) {
    if (a.piece.is_critical != b.piece.is_critical) return a.piece.is_critical;
    return a.piece.position < b.piece.position;
  }

  // With more pieces in use than keep all transfers and lanes busy, memory would be touched for nothing.
  bool holds_enough() const { return used_ >= slots_wanted(1) && used_streams_ >= slots_wanted(job_.streams_wanted()); }

  // The share of a thread in the last pieces is what is left by all.
  std::size_t streams_wanted() const {
    const std::size_t wanted = job_.streams_wanted();
    return exhausted_ ? std::min(wanted, (used_streams_ + thread_count_ - 1) / thread_count_) : wanted;
  }

  // Puts the next piece into a slot; returns false if there is none.
  bool begin(Slot& s) {
    try {
      while (!exhausted_) {
        exhausted_ = !job_.next(s.piece, error_ ? &error_position_ : nullptr);
        if (exhausted_ || !dropped(s)) break;
        s.piece = {};
      }
    } catch (...) {
      // The error counts after all pieces that next has returned.
      fail_at({~std::size_t{0}, 0}, std::current_exception());
      exhausted_ = true;
    }
    if (exhausted_) return false;
    s.state = State::kReading;
    ++used_;
    used_streams_ += s.piece.streams;
    return true;
  }

  void work() {
    std::unique_ptr<TransferQueue> queue;
    try {
      queue = make_queue();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      fail_at({}, std::current_exception());
      exhausted_ = true;
      changed_.notify_all();
      return;
    }
    std::unique_lock lock(mutex_);
    try {
      work_with(queue.get(), lock);
    } catch (...) {
      // Destroying the broken queue releases the memory of its transfers, which are lost.
      if (!lock.owns_lock()) lock.lock();
      // Less than an error of the first piece, which has its place.
      fail_at({}, std::current_exception(), ~std::size_t{0});
      exhausted_ = true;
      // A queue that another thread makes now may have the same address.
      const void* const lost = &lock;
      for (Slot& s : slots_) {
        if (s.queue != queue.get() || (s.pending == 0 && s.next_transfer == s.transfer_count)) continue;
        s.failed = true;
        s.queue = lost;
      }
      lock.unlock();
      queue.reset();
      lock.lock();
      for (Slot& s : slots_) {
        if (s.queue != lost) continue;
        s.queue = nullptr;
        s.pending = 0;
        finish_move(s);
      }
      changed_.notify_all();
    }
  }

  void work_with(TransferQueue* queue, std::unique_lock<std::mutex>& lock) {
    for (;;) {
      // Completions are handled before this thread computes, so that another thread can continue with them.
      if (asynchronous_) reap_what_is_through(*queue, lock);
      const bool room = asynchronous_ ? queue->in_flight() < queue->depth() : reading_ + writing_ < depth_;
      const Task task = choose(queue, room);
      if (task.kind != Kind::kNone) {
        perform(task, queue, lock);
      } else if (asynchronous_ && queue->in_flight() > 0) {
        if (computing_ > 0 && !is_one_looking_) {
          wait_for_task_or_transfer(lock);
        } else {
          reap(*queue, lock);
        }
      } else if (exhausted_ && used_ == 0) {
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
  void wait_for_task_or_transfer(std::unique_lock<std::mutex>& lock) {
    constexpr std::chrono::microseconds kBetweenLooks{100};
    wake_another();
    is_one_looking_ = true;
    ++waiting_;
    changed_.wait_for(lock, kBetweenLooks);
    --waiting_;
    is_one_looking_ = false;
  }

  void perform(const Task& task, TransferQueue* queue, std::unique_lock<std::mutex>& lock) {
    Slot& s = *task.slot;
    if (task.kind == Kind::kRead || task.kind == Kind::kWrite) return move(s, task.kind, queue, lock);
    if (task.kind == Kind::kChain || task.kind == Kind::kFewChains) return chain(s, queue, lock);
    s.state = State::kComputing;
    ++computing_;
    wake_another();
    lock.unlock();
    std::exception_ptr error;
    try {
      if (task.kind == Kind::kProduce) {
        job_.produce(s.piece, memory_of(s));
      } else {
        job_.consume(s.piece, memory_of(s));
      }
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --computing_;
    s.state = task.kind == Kind::kProduce ? State::kProduced : State::kConsumed;
    if (error) fail(s, error);
  }

  // Takes the slot and others whose chain stage is next, those at the lowest positions. The lock is held before and
  // after.
  void chain(Slot& first, TransferQueue* queue, std::unique_lock<std::mutex>& lock) {
    std::array<Slot*, kStepsMax> taken;
    std::array<ChainStep<typename Job::Piece>, kStepsMax> steps;
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
    if (asynchronous_) keep_moving = std::ref(move_meanwhile);  // allocates nothing
    const std::size_t count = take_chains(first, taken);
    for (std::size_t i = 0; i < count; ++i) {
      taken[i]->chaining = true;
      steps[i] = {&taken[i]->piece, memory_of(*taken[i]), {}};
    }
    ++computing_;
    wake_another();
    lock.unlock();
    try {
      job_.chain(std::span(steps).first(count), keep_moving);
    } catch (...) {
      steps[0].error = std::current_exception();
    }
    lock.lock();
    --computing_;
    for (std::size_t i = 0; i < count; ++i) {
      Slot& s = *taken[i];
      s.chaining = false;
      s.chained = true;
      if (s.piece.chain != nullptr) ++s.piece.chain->next;
      if (steps[i].error) fail(s, steps[i].error);
      if (!s.piece.chains_late) s.state = State::kChained;
      if (s.state == State::kWritten) release(s);
    }
    if (broken) std::rethrow_exception(broken);
  }

  // Completes the transfers that are through, and starts those that are next.
  void move_what_may(TransferQueue& queue) {
    std::unique_lock lock(mutex_);
    reap_what_is_through(queue, lock);
    for (;;) {
      const Task task = choose(&queue, queue.in_flight() < queue.depth(), true);
      if (task.kind == Kind::kNone) break;
      move(*task.slot, task.kind, &queue, lock);
    }
    wake_another();
  }

  // Returns how many were taken: as many streams as the job wants now.
  std::size_t take_chains(Slot& first, std::array<Slot*, kStepsMax>& taken) {
    const std::size_t wanted = streams_wanted();
    taken[0] = &first;
    std::size_t streams = first.piece.streams;
    std::size_t count = 1;
    while (!first.piece.is_critical && streams < wanted && count < kStepsMax) {
      Slot* lowest = nullptr;
      for (Slot& s : slots_) {
        if (s.piece.is_critical || !may_chain(s) || !(taken[count - 1]->piece.position < s.piece.position)) continue;
        if (lowest == nullptr || s.piece.position < lowest->piece.position) lowest = &s;
      }
      if (lowest == nullptr) break;
      taken[count++] = lowest;
      streams += lowest->piece.streams;
    }
    return count;
  }

  // Starts transfers of a piece, all that the queue accepts. The lock is held before and after.
  void move(Slot& s, Kind kind, TransferQueue* queue, std::unique_lock<std::mutex>& lock) {
    const bool is_planned = s.next_transfer < s.transfer_count;
    s.state = kind == Kind::kRead ? State::kReading : State::kWriting;
    // Nobody else may find the piece complete between two of its transfers.
    ++s.pending;
    unsigned& now = kind == Kind::kRead ? reading_ : writing_;
    ++now;
    wake_another();
    try {
      if (!is_planned) {
        s.queue = queue;
        plan_move(s, kind, lock);
        if (!asynchronous_ && s.transfer_count > 1) wake_another();
      }
      while (s.next_transfer < s.transfer_count && !s.failed) {
        const std::size_t number = s.next_transfer;
        FileTransfer& next = s.transfers[number];
        const bool is_queued = asynchronous_ && next.file == file_;
        if (is_queued && queue->in_flight() == queue->depth()) break;
        ++s.next_transfer;
        if (next.transfer.memory.size == 0) continue;
        next.transfer.kind = kind == Kind::kRead ? Transfer::Kind::kRead : Transfer::Kind::kWrite;
        next.transfer.owner = &s;
        if (is_queued) ++s.pending;
        lock.unlock();
        std::exception_ptr error;
        if (is_queued) {
          queue->start(next.transfer);
        } else {
          error = move_at_once(next, queue);
        }
        lock.lock();
        if (error) fail(s, error, number);
      }
    } catch (...) {
      // Other threads still move pieces before this one.
      if (!lock.owns_lock()) lock.lock();
      --now;
      throw;
    }
    --now;
    --s.pending;
    finish_move(s);
  }

  // Fills in the transfers of a piece. The lock is held before and after.
  void plan_move(Slot& s, Kind kind, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    std::size_t count = 0;
    std::exception_ptr error;
    try {
      if (s.piece.failure) std::rethrow_exception(s.piece.failure);
      if (kind == Kind::kRead) first_touch_.touch(memory_of(s));
      for (FileTransfer& transfer : s.transfers) transfer.transfer.spare_bytes = 0;
      count = kind == Kind::kRead ? job_.reads(s.piece, memory_of(s), s.transfers)
                                  : job_.writes(s.piece, memory_of(s), s.transfers);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    s.transfer_count = count;
    s.next_transfer = 0;
    if (error) fail(s, error);
  }

  // Makes a transfer that blocks.
  std::exception_ptr move_at_once(FileTransfer& move, TransferQueue* queue) const {
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

  void reap(TransferQueue& queue, std::unique_lock<std::mutex>& lock) {
    wake_another();
    lock.unlock();
    Transfer& done = queue.wait();
    lock.lock();
    finish_move(settle(done));
  }
  void reap_what_is_through(TransferQueue& queue, std::unique_lock<std::mutex>& lock) {
    while (queue.in_flight() > 0) {
      lock.unlock();
      Transfer* const done = queue.poll();
      lock.lock();
      if (done == nullptr) return;
      finish_move(settle(*done));
    }
  }

  static std::size_t number_of(const Slot& s, const Transfer& transfer) {
    const auto found =
        std::ranges::find_if(s.transfers, [&](const FileTransfer& t) { return &t.transfer == &transfer; });
    return static_cast<std::size_t>(found - s.transfers.begin());
  }

  Slot& settle(Transfer& done) {
    Slot& s = *static_cast<Slot*>(done.owner);
    --s.pending;
    if (done.error) fail(s, done.error, number_of(s, done));
    return s;
  }

  // Moves a piece on when its last transfer is complete.
  void finish_move(Slot& s) {
    if (s.pending > 0 || (s.next_transfer < s.transfer_count && !s.failed)) return;
    s.transfer_count = s.next_transfer = 0;
    if (s.state == State::kReading) {
      s.state = State::kRead;
    } else if (s.state == State::kWriting) {
      s.state = State::kWritten;
      if (s.chained || s.piece.streams == 0) release(s);
    }
  }

  std::span<std::byte> memory_of(const Slot& s) const {
    if (s.piece.has_own_memory) return {};
    return s.piece.is_part && !s.part_memory.empty() ? s.part_memory : s.memory;
  }

  Job& job_;
  File* const file_;
  const bool asynchronous_, writes_take_turns_;
  const std::uint64_t piece_count_, part_count_;  // about
  const unsigned thread_count_;
  const unsigned depth_;
  const unsigned worker_count_;
  const bool transfers_first_;  // as they do not need the cores
  const bool reads_;
  const std::size_t memory_bytes_, part_memory_bytes_;  // of a slot, whole pages
  std::vector<Slot> slots_;
  const HostMemory memory_;
  FirstTouch first_touch_;
  const PinnedRange pinned_;
  const MutableBuffer registered_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t used_ = 0, used_streams_ = 0;
  unsigned computing_ = 0;
  unsigned reading_ = 0, writing_ = 0;  // threads that start or make transfers
  unsigned waiting_ = 0;
  bool is_one_looking_ = false;
  bool exhausted_ = false;
  std::exception_ptr error_;
  Position error_position_;
  std::size_t error_transfer_ = 0;
};

}  // namespace tzmark
