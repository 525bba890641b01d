// The pieces in work: where each stands, and how it moves on. No threads, no I/O, no job: the pipeline calls everything
// here under its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "codec/piece.h"

namespace tzmark {

enum class SlotState : std::uint8_t {
  kFree,
  kReading,
  kRead,
  kComputing,
  kProduced,
  kChained,
  kLent,  // to a copy that the consume stage has started
  kConsumed,
  kWriting,
  kWritten
};

// What decisions depend on of a piece in work. One cache line, because each decision looks at all slots; buffers and
// planned transfers lie elsewhere.
struct alignas(64) Slot {
  Position position = {};
  Chain* chain = nullptr;
  std::uint64_t in_chain = 0;
  // Of the thread that has planned the transfers; on an asynchronous path it carries them.
  const void* queue = nullptr;
  std::uint32_t streams = 0;
  std::uint16_t transfer_count = 0, next_transfer = 0;  // planned ones, and the first of them that is not started
  std::uint32_t pending = 0;                            // transfers in flight, and threads that start some
  SlotState state = SlotState::kFree;
  bool is_critical = false, chains_late = false;
  bool failed = false;    // whether a step or transfer failed, which ends the piece
  bool chaining = false;  // in the chain stage
  bool chained = false;   // through it
  bool is_led = false;    // waits for the thread that has begun it after another one
};
static_assert(sizeof(Slot) == 64);

struct PipelineState {
  explicit PipelineState(std::size_t slot_count) : slots(slot_count) {}

  std::vector<Slot> slots;
  std::function<void(std::size_t slot)> on_release;  // called for each slot that becomes free; may be empty
  std::size_t used = 0, used_streams = 0;            // slots with a piece, and the sum of their streams
  std::size_t led = 0;                               // those whose thread has not come to them yet
  unsigned computing = 0;                            // threads
  unsigned reading = 0, writing = 0;                 // threads that start or make transfers
  bool exhausted = false;                            // whether the job has no more pieces
  // The error at the lowest position so far. Of several transfers of a piece, the first one that fails is the error,
  // because those before it have been started.
  std::exception_ptr error;
  Position error_position = {};
  std::size_t error_transfer = 0;

  // Whether the piece is not needed: pieces before the one that failed are finished, others are not.
  bool is_dropped(const Slot& s) const { return s.failed || (error && error_position < s.position); }

  void fail(Slot& s, std::exception_ptr why, std::size_t transfer = 0);
  void fail_at(Position position, std::exception_ptr why, std::size_t transfer = 0);

  // Puts a piece into a free slot.
  void occupy(Slot& s, const PipelinePiece& piece);
  // Keeps a piece that has just begun for the thread with the queue, until it comes to it.
  void lead(Slot& s, const void* queue);
  void come_to(Slot& s);
  // Frees the slots of dropped pieces that no thread works on.
  void release_dropped();
  // Moves a piece on when its last transfer is complete.
  void finish_move(Slot& s);
  // Moves a piece on that has passed the chain stage. why: the error of the stage, or null.
  void finish_chain(Slot& s, std::exception_ptr why);
  // Drops the pieces whose transfers a broken queue carried. begin_loss stops their transfers, so that the queue can be
  // destroyed without the lock; end_loss continues afterwards. mark: distinguishes them from those of a queue that
  // another thread makes at the same address.
  void begin_loss(const void* queue, const void* mark);
  void end_loss(const void* mark);

 private:
  void release(Slot& s);
};

}  // namespace tzmark
