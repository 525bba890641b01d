// Which step a thread of the pipeline takes next. Pure: given the state of all slots and who asks, it returns a task;
// no threads, no I/O, no side effects. The pipeline calls it under its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/pipeline_state.h"

namespace tzmark {

// kFewChains: a chain stage with fewer streams than a thread can process side by side. kTakeBack: to wait for the copy
// that uses the buffer.
enum class TaskKind : std::uint8_t { kNone, kBegin, kRead, kProduce, kChain, kFewChains, kConsume, kWrite, kTakeBack };

struct Task {
  TaskKind kind = TaskKind::kNone;
  std::size_t slot = 0;
};

// Who asks for a task.
struct Asker {
  const void* queue = nullptr;     // of this thread; null: a thread without transfers
  bool has_room = false;           // whether the queue, or the path, takes another transfer
  bool has_buffer = true;          // whether the next piece would find one
  bool only_moves = false;         // wants no task that computes
  std::size_t streams_wanted = 1;  // by the job, of a chain stage at present
};

// What does not change while a pipeline runs.
struct Schedule {
  bool is_asynchronous = false;    // threads keep transfers in flight while they compute
  bool writes_take_turns = false;  // a second writer of a file would wait for the first
  bool transfers_first = false;    // transfers do not need the cores
  bool begins_with_reads = true;   // pieces begin with transfers
  bool moves_data = true;          // there is a file
  unsigned compute_threads_max = 1;
  unsigned transfers_max = 1;  // in flight, by all threads

  // The best task. kBegin: the slot is free, and the next piece of the job shall begin in it.
  Task choose(const PipelineState& state, const Asker& asker) const;
  // Whether choose would return a task.
  bool has_task(const PipelineState& state, const Asker& asker) const;

  // Fills taken with the slots whose chain stage a thread takes together: first, and those at the lowest positions
  // after it until they have the streams that are wanted. Returns how many there are.
  std::size_t take_chains(const PipelineState& state, std::size_t streams_wanted, std::size_t first,
                          std::span<std::size_t> taken) const;

  // Slots that keep all transfers, and so many streams of each thread, busy.
  std::size_t slots_wanted(std::size_t streams) const;

 private:
  int priority(TaskKind kind, unsigned writing) const;
  bool may_begin(const PipelineState& state, const Asker& asker) const;
  bool waits_for_streams(const PipelineState& state, const Asker& asker, std::size_t wanted, std::size_t streams) const;
  std::size_t streams_wanted_now(const PipelineState& state, std::size_t streams_wanted) const;
  template <typename Visit>
  void visit_tasks(const PipelineState& state, const Asker& asker, const Visit& visit) const;
};

}  // namespace tzmark
