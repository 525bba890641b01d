// The order of steps.
#include "codec/schedule.h"

#include <algorithm>
#include <array>

namespace tzmark {
namespace {

// Whether the chain stage is next, or one of two possible steps.
bool may_chain(const PipelineState& state, const Slot& s) {
  if (s.streams == 0 || s.chaining || s.chained || state.is_dropped(s)) return false;
  const bool is_late =
      s.state == SlotState::kConsumed || s.state == SlotState::kWriting || s.state == SlotState::kWritten;
  if (s.chains_late ? !is_late : s.state != SlotState::kProduced) return false;
  return s.chain == nullptr || s.chain->next == s.in_chain;
}

// The next step of a slot that needs no thread yet, except for the chain stage.
TaskKind next_step(const PipelineState& state, const Slot& s) {
  // A copy ends even if its piece is not needed any more.
  if (s.state == SlotState::kLent) return TaskKind::kTakeBack;
  if (s.pending > 0 || state.is_dropped(s)) return TaskKind::kNone;
  switch (s.state) {
    case SlotState::kRead:
      return TaskKind::kProduce;
    case SlotState::kProduced:
      return s.streams == 0 || s.chains_late ? TaskKind::kConsume : TaskKind::kNone;
    case SlotState::kChained:
      return TaskKind::kConsume;
    case SlotState::kConsumed:
      return TaskKind::kWrite;
    default:
      return TaskKind::kNone;
  }
}

bool precedes(const Slot& a, const Slot& b) {
  if (a.is_critical != b.is_critical) return a.is_critical;
  return a.position < b.position;
}

}  // namespace

std::size_t Schedule::slots_wanted(std::size_t streams) const {
  return std::size_t{transfers_max} + (1 + streams) * compute_threads_max + 1;
}

// Lower comes first. Transfers, which proceed without the cores, start before a thread computes; otherwise the step
// comes first that unblocks others. Workers for transfers shall find pieces that are ready before the chain stage
// occupies all cores: writes of encrypted tensors with SHA-256 gain a tenth. On an asynchronous path, whose threads
// start the transfers, that costs a tenth. Where writes to a file take turns, a second writer would only wait for the
// first. A thread waits for a copy only if it has nothing else to do.
int Schedule::priority(TaskKind kind, unsigned writing) const {
  // none, begin, read, produce, chain, few chains, consume, write, take back
  constexpr std::array<int, 9> kTransfersFirst = {9, 1, 1, 4, 3, 5, 2, 0, 8};
  constexpr std::array<int, 9> kWorkersForTransfers = {9, 1, 1, 3, 4, 5, 2, 0, 8};
  constexpr std::array<int, 9> kComputesFirst = {9, 5, 5, 4, 2, 6, 1, 3, 8};
  if (kind == TaskKind::kWrite && writes_take_turns) return writing == 0 ? 0 : 7;
  const auto& order = is_asynchronous ? kTransfersFirst : transfers_first ? kWorkersForTransfers : kComputesFirst;
  return order[static_cast<std::size_t>(kind)];
}

// With more pieces in use than keep all transfers and lanes busy, memory would be touched for nothing. Those that wait
// for the one thread that may take them keep nothing busy.
bool Schedule::may_begin(const PipelineState& state, const Asker& asker) const {
  if (state.exhausted || state.used == state.slots.size() || !asker.has_buffer) return false;
  const std::size_t used = state.used - state.led;
  // Pieces that skip the chain stage have no streams.
  const bool holds_enough =
      used >= slots_wanted(1) &&
      std::max(used, state.used_streams) >= slots_wanted(streams_wanted_now(state, asker.streams_wanted));
  if (holds_enough) return false;
  // A piece that begins without transfers moves nothing.
  if (begins_with_reads ? !asker.has_room : asker.only_moves) return false;
  return moves_data || state.computing < compute_threads_max;
}

// The share of a thread in the last pieces is what is left by all.
std::size_t Schedule::streams_wanted_now(const PipelineState& state, std::size_t streams_wanted) const {
  if (!state.exhausted) return streams_wanted;
  return std::min(streams_wanted, (state.used_streams + compute_threads_max - 1) / compute_threads_max);
}

// Calls visit(kind, slot) for each task of a piece in work that the asker may take, until it returns false.
template <typename Visit>
void Schedule::visit_tasks(const PipelineState& state, const Asker& asker, const Visit& visit) const {
  const bool may_compute = !asker.only_moves && state.computing < compute_threads_max;
  // Pieces begin in the lowest slot, so that those in work are the first ones.
  for (std::size_t i = 0, left = state.used; left > 0; ++i) {
    const Slot& s = state.slots[i];
    if (s.state == SlotState::kFree) continue;
    --left;
    const TaskKind step = next_step(state, s);
    const bool may_take = step == TaskKind::kWrite      ? asker.has_room
                          : step == TaskKind::kTakeBack ? !asker.only_moves
                                                        : may_compute;
    if (step != TaskKind::kNone && may_take && !visit(step, i)) return;
    // Planned transfers that are not started: where calls block, each of the workers for them takes one, so that a
    // piece is complete soon after its first byte.
    if (asker.has_room && s.next_transfer != s.transfer_count && !state.is_dropped(s) &&
        (is_asynchronous ? s.queue == asker.queue : transfers_first) &&
        !visit(s.state == SlotState::kReading ? TaskKind::kRead : TaskKind::kWrite, i)) {
      return;
    }
    if (may_compute && may_chain(state, s) && !visit(TaskKind::kChain, i)) return;
  }
}

bool Schedule::has_task(const PipelineState& state, const Asker& asker) const {
  bool found = may_begin(state, asker);
  if (found) return true;
  visit_tasks(state, asker, [&](TaskKind, std::size_t) {
    found = true;
    return false;
  });
  return found;
}

Task Schedule::choose(const PipelineState& state, const Asker& asker) const {
  const auto& slots = state.slots;
  const std::size_t wanted = streams_wanted_now(state, asker.streams_wanted);
  Task best, chain;
  std::size_t streams = 0;
  const auto consider = [&](Task& other, TaskKind kind, std::size_t slot) {
    const int order = priority(kind, state.writing);
    if (order < priority(other.kind, state.writing) ||
        (kind == other.kind && precedes(slots[slot], slots[other.slot]))) {
      other = {kind, slot};
    }
  };
  visit_tasks(state, asker, [&](TaskKind kind, std::size_t slot) {
    consider(kind == TaskKind::kChain ? chain : best, kind, slot);
    if (kind == TaskKind::kChain) streams += slots[slot].streams;
    return true;
  });
  if (chain.kind != TaskKind::kNone) {
    const bool is_critical = slots[chain.slot].is_critical;
    if (!is_critical && streams < wanted) chain.kind = TaskKind::kFewChains;
    // A critical chain ends last in any case.
    const bool is_urgent = is_critical && best.kind == TaskKind::kProduce;
    const bool waits = chain.kind == TaskKind::kFewChains && waits_for_streams(state, asker, wanted, streams);
    if (!waits && (is_urgent || priority(chain.kind, state.writing) < priority(best.kind, state.writing))) best = chain;
  }
  if (priority(TaskKind::kBegin, state.writing) < priority(best.kind, state.writing) && may_begin(state, asker)) {
    const auto free = std::ranges::find(slots, SlotState::kFree, &Slot::state);
    return {TaskKind::kBegin, static_cast<std::size_t>(free - slots.begin())};
  }
  return best;
}

// Whether a thread leaves so few streams alone until its own reads, which wake it, bring more: half as many take a core
// almost as long. In reads of encrypted tensors with SHA-256 by uring-direct, a core with two streams or more computes
// for 14 % less time.
bool Schedule::waits_for_streams(const PipelineState& state, const Asker& asker, std::size_t wanted,
                                 std::size_t streams) const {
  // With few slots, or without a buffer for another piece, no more may ever come together.
  if (!is_asynchronous || state.exhausted || !asker.has_buffer) return false;
  if (2 * streams >= std::min(wanted, state.slots.size() / 2)) return false;
  // Critical pieces go through the chain stage alone.
  return std::ranges::any_of(state.slots, [&](const Slot& s) {
    return s.state == SlotState::kReading && s.queue == asker.queue && s.pending > 0 && s.streams > 0 && !s.is_critical;
  });
}

// One pass over the slots, because the lock is held: taken is kept sorted, without what its streams can do without.
std::size_t Schedule::take_chains(const PipelineState& state, std::size_t streams_wanted, std::size_t first,
                                  std::span<std::size_t> taken) const {
  const std::size_t wanted = streams_wanted_now(state, streams_wanted);
  const auto& slots = state.slots;
  taken[0] = first;
  std::size_t streams = slots[first].streams;
  std::size_t count = 1;
  if (slots[first].is_critical) return count;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& s = slots[i];
    const bool is_full = streams >= wanted || count == taken.size();
    if (is_full && !(s.position < slots[taken[count - 1]].position)) continue;
    if (s.is_critical || !(slots[first].position < s.position) || !may_chain(state, s)) continue;
    if (count == taken.size()) streams -= slots[taken[--count]].streams;
    std::size_t at = count++;
    for (; s.position < slots[taken[at - 1]].position; --at) taken[at] = taken[at - 1];
    taken[at] = i;
    streams += s.streams;
    while (streams - slots[taken[count - 1]].streams >= wanted) streams -= slots[taken[--count]].streams;
  }
  return count;
}

}  // namespace tzmark
