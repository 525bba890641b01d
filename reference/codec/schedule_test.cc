// Which step comes next, for given states of the slots.
#include "codec/schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <exception>
#include <stdexcept>

namespace tzmark {
namespace {

Schedule asynchronous() {
  Schedule schedule;
  schedule.is_asynchronous = schedule.transfers_first = true;
  schedule.compute_threads_max = 2;
  schedule.transfers_max = 8;
  return schedule;
}
Schedule blocking() {
  Schedule schedule;
  schedule.compute_threads_max = schedule.transfers_max = 2;
  return schedule;
}

// Pieces of one tensor each, in the order of the slots.
PipelineState with(const std::vector<SlotState>& states) {
  PipelineState state(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i] == SlotState::kFree) continue;
    PipelinePiece piece;
    piece.position = {i, 0};
    state.occupy(state.slots[i], piece);
    state.slots[i].state = states[i];
  }
  return state;
}

constexpr Asker kAnyone{.has_room = true};

TEST(Schedule, BeginsAPieceInAFreeSlot) {
  const PipelineState state = with({SlotState::kComputing, SlotState::kFree});
  const Task task = asynchronous().choose(state, kAnyone);
  EXPECT_EQ(task.kind, TaskKind::kBegin);
  EXPECT_EQ(task.slot, 1U);
  EXPECT_TRUE(asynchronous().has_task(state, kAnyone));
}

TEST(Schedule, BeginsNothingWithoutRoomOrPieces) {
  PipelineState state = with({SlotState::kFree});
  EXPECT_EQ(asynchronous().choose(state, {.has_room = false}).kind, TaskKind::kNone);
  state.exhausted = true;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kNone);
  EXPECT_FALSE(asynchronous().has_task(state, kAnyone));
}

TEST(Schedule, BeginsNoMoreThanKeepsAllBusy) {
  const Schedule schedule = blocking();
  for (const std::size_t streams : {1U, 0U}) {
    PipelineState state = with(std::vector<SlotState>(schedule.slots_wanted(1) + 1, SlotState::kFree));
    const auto fill = [&](std::size_t i) {
      PipelinePiece piece;
      piece.position = {i, 0};
      piece.streams = streams;
      state.occupy(state.slots[i], piece);
      state.slots[i].state = SlotState::kComputing;
    };
    for (std::size_t i = 0; i + 1 < schedule.slots_wanted(1); ++i) fill(i);
    EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kBegin);
    fill(schedule.slots_wanted(1) - 1);
    EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kNone);
    EXPECT_FALSE(schedule.has_task(state, kAnyone));
  }
}

TEST(Schedule, DoesNotCountPiecesThatWaitForTheirThread) {
  const Schedule schedule = blocking();
  std::vector<SlotState> states(schedule.slots_wanted(1) + 1, SlotState::kReading);
  states.back() = SlotState::kFree;
  PipelineState state = with(states);
  EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kNone);
  state.lead(state.slots[0], nullptr);
  EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kBegin);
  state.come_to(state.slots[0]);
  EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kNone);
}

TEST(PipelineState, KeepsADroppedPieceUntilItsThreadComesToIt) {
  PipelineState state = with({SlotState::kReading, SlotState::kReading});
  state.lead(state.slots[1], nullptr);
  state.fail(state.slots[0], std::make_exception_ptr(std::runtime_error("0")));
  state.release_dropped();
  EXPECT_EQ(state.used, 1U);
  state.come_to(state.slots[1]);
  state.release_dropped();
  EXPECT_EQ(state.used, 0U);
  EXPECT_EQ(state.led, 0U);
}

TEST(PipelineState, DropsPiecesThatWaitForAThreadWhoseQueueBroke) {
  PipelineState state = with({SlotState::kReading, SlotState::kReading});
  const int queue = 0, other_queue = 0, mark = 0;
  state.lead(state.slots[0], &other_queue);
  state.lead(state.slots[1], &queue);
  state.fail_at({}, std::make_exception_ptr(std::runtime_error("the queue")));
  state.begin_loss(&queue, &mark);
  state.end_loss(&mark);
  state.release_dropped();
  EXPECT_EQ(state.slots[1].state, SlotState::kFree);
  EXPECT_EQ(state.led, 1U);
  EXPECT_TRUE(state.slots[0].is_led);
}

TEST(Schedule, StartsTransfersBeforeItComputesOnAnAsynchronousPath) {
  PipelineState state = with({SlotState::kRead, SlotState::kConsumed});
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kWrite);
  EXPECT_EQ(asynchronous().choose(state, {.has_room = false}).kind, TaskKind::kProduce);
}

TEST(Schedule, ComputesBeforeItBlocks) {
  const PipelineState state = with({SlotState::kConsumed, SlotState::kChained});
  EXPECT_EQ(blocking().choose(state, kAnyone).kind, TaskKind::kConsume);
}

TEST(Schedule, ComputesWithNoMoreThreadsThanAllowed) {
  PipelineState state = with({SlotState::kRead});
  state.exhausted = true;
  state.computing = 2;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kNone);
  EXPECT_FALSE(asynchronous().has_task(state, kAnyone));
  state.computing = 1;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kProduce);
}

TEST(Schedule, OnlyMovesWhenAskedTo) {
  PipelineState state = with({SlotState::kRead, SlotState::kProduced, SlotState::kChained});
  state.exhausted = true;
  EXPECT_EQ(asynchronous().choose(state, {.has_room = true, .only_moves = true}).kind, TaskKind::kNone);
}

TEST(Schedule, TakesTheLowestPosition) {
  PipelineState state = with({SlotState::kRead, SlotState::kRead});
  state.slots[0].position = {7, 0};
  state.exhausted = true;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).slot, 1U);
  state.slots[0].is_critical = true;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).slot, 0U);
}

TEST(Schedule, WaitsForThePieceBeforeInItsChain) {
  Chain chain{.next = 4};
  PipelineState state = with({SlotState::kProduced});
  state.exhausted = true;
  state.slots[0].chain = &chain;
  state.slots[0].in_chain = 5;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kNone);
  chain.next = 5;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kChain);
}

TEST(Schedule, SkipsTheChainStageOfAPieceWithoutStreams) {
  PipelineState state = with({SlotState::kProduced});
  state.exhausted = true;
  state.slots[0].streams = 0;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kConsume);
}

TEST(Schedule, WritesFirstWhatChainsLate) {
  PipelineState state = with({SlotState::kProduced});
  state.exhausted = true;
  state.slots[0].chains_late = true;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kConsume);
  state.slots[0].state = SlotState::kConsumed;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kWrite);
  state.slots[0].state = SlotState::kWritten;
  EXPECT_EQ(asynchronous().choose(state, kAnyone).kind, TaskKind::kChain);
}

TEST(Schedule, DropsPiecesAfterTheErrorOnly) {
  PipelineState state = with({SlotState::kRead, SlotState::kRead, SlotState::kComputing});
  state.exhausted = true;
  state.fail_at({0, 1}, std::make_exception_ptr(std::runtime_error("")));
  state.release_dropped();
  EXPECT_EQ(state.used, 2U);  // one is needed, one in work
  EXPECT_EQ(state.used_streams, 2U);
  const Task task = asynchronous().choose(state, kAnyone);
  EXPECT_EQ(task.kind, TaskKind::kProduce);
  EXPECT_EQ(task.slot, 0U);
}

TEST(Schedule, WaitsForACopyOnlyIfThereIsNothingElseToDo) {
  PipelineState state = with({SlotState::kLent, SlotState::kLent, SlotState::kFree});
  state.slots[0].position = {7, 0};
  for (const Schedule& schedule : {asynchronous(), blocking()}) {
    EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kBegin);
    const Task task = schedule.choose(state, {.has_room = false});
    EXPECT_EQ(task.kind, TaskKind::kTakeBack);
    EXPECT_EQ(task.slot, 1U);
    EXPECT_EQ(schedule.choose(state, {.has_room = false, .only_moves = true}).kind, TaskKind::kNone);
  }
}

// The memory of a piece that is not needed any more is in use all the same.
TEST(Schedule, WaitsForTheCopyOfADroppedPiece) {
  PipelineState state = with({SlotState::kFree, SlotState::kLent});
  state.exhausted = true;
  state.fail_at({0, 0}, std::make_exception_ptr(std::runtime_error("")));
  state.release_dropped();
  EXPECT_EQ(state.used, 1U);
  EXPECT_EQ(blocking().choose(state, kAnyone).kind, TaskKind::kTakeBack);
  state.slots[1].state = SlotState::kConsumed;
  state.release_dropped();
  EXPECT_EQ(state.used, 0U);
}

TEST(Schedule, LetsOneThreadWriteWhereWritesTakeTurns) {
  Schedule schedule = blocking();
  schedule.writes_take_turns = true;
  PipelineState state = with({SlotState::kConsumed, SlotState::kRead});
  EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kWrite);
  state.writing = 1;
  EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kProduce);
}

TEST(Schedule, SharesTheTransfersOfAPieceWhereCallsBlock) {
  Schedule schedule = blocking();
  PipelineState state = with({SlotState::kReading});
  state.exhausted = true;
  state.slots[0].transfer_count = 4;
  state.slots[0].next_transfer = 1;
  EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kNone);
  schedule.transfers_first = true;  // there are workers for transfers
  EXPECT_EQ(schedule.choose(state, kAnyone).kind, TaskKind::kRead);
}

TEST(Schedule, LeavesQueuedTransfersToTheThreadThatPlannedThem) {
  const int mine = 0, other = 0;
  PipelineState state = with({SlotState::kReading});
  state.exhausted = true;
  state.slots[0].transfer_count = 4;
  state.slots[0].queue = &mine;
  EXPECT_EQ(asynchronous().choose(state, {.queue = &other, .has_room = true}).kind, TaskKind::kNone);
  EXPECT_EQ(asynchronous().choose(state, {.queue = &mine, .has_room = true}).kind, TaskKind::kRead);
}

TEST(Schedule, WaitsForStreamsThatItsOwnReadsBring) {
  const int mine = 0;
  PipelineState state = with(std::vector<SlotState>(20, SlotState::kReading));
  for (Slot& s : state.slots) s.pending = 1;
  state.slots[0].state = SlotState::kProduced;
  state.slots[0].pending = 0;
  const Asker asker{.queue = &mine, .streams_wanted = 8};
  EXPECT_EQ(asynchronous().choose(state, asker).kind, TaskKind::kFewChains);
  state.slots[1].queue = &mine;
  EXPECT_EQ(asynchronous().choose(state, asker).kind, TaskKind::kNone);
  EXPECT_EQ(blocking().choose(state, asker).kind, TaskKind::kFewChains);
  const Asker without_buffer{.queue = &mine, .has_buffer = false, .streams_wanted = 8};
  EXPECT_EQ(asynchronous().choose(state, without_buffer).kind, TaskKind::kFewChains) << "it holds what others wait for";
  for (std::size_t i = 0; i < 4; ++i) {
    state.slots[i].state = SlotState::kProduced;
    state.slots[i].pending = 0;
  }
  state.slots[5].queue = &mine;
  EXPECT_EQ(asynchronous().choose(state, asker).kind, TaskKind::kFewChains);
}

TEST(Schedule, TakesChainsByPositionUntilThereAreEnoughStreams) {
  PipelineState state = with(std::vector<SlotState>(6, SlotState::kProduced));
  for (std::size_t i = 0; i < 6; ++i) state.slots[i].position = {6 - i, 0};
  state.slots[4].is_critical = true;
  std::array<std::size_t, 8> taken{};
  ASSERT_EQ(asynchronous().take_chains(state, 3, 5, taken), 3U);
  EXPECT_EQ(taken[0], 5U);
  EXPECT_EQ(taken[1], 3U);
  EXPECT_EQ(taken[2], 2U);
  ASSERT_EQ(asynchronous().take_chains(state, 3, 4, taken), 1U);  // a critical piece goes alone
}

// A thread that waits is woken if has_task says so, which must agree with choose on every state.
TEST(Schedule, HasATaskExactlyIfItChoosesOne) {
  constexpr std::array<SlotState, 10> kStates = {
      SlotState::kFree,    SlotState::kReading, SlotState::kRead,     SlotState::kComputing, SlotState::kProduced,
      SlotState::kChained, SlotState::kLent,    SlotState::kConsumed, SlotState::kWriting,   SlotState::kWritten};
  unsigned tasks = 0;
  for (const SlotState a : kStates) {
    for (const SlotState b : kStates) {
      for (unsigned bits = 0; bits < 256; ++bits) {
        PipelineState state = with({a, b});
        const auto bit = [&](unsigned i) { return (bits >> i & 1) != 0; };
        state.exhausted = bit(0);
        state.computing = bit(1) ? 2 : 0;
        for (Slot& s : state.slots) {
          if (s.state == SlotState::kFree) continue;
          s.chains_late = bit(2);
          if (bit(3)) s.streams = 0;
          s.transfer_count = bit(4) ? 2 : 0;
          s.chaining = bit(5) && s.streams > 0;
        }
        for (Schedule schedule : {asynchronous(), blocking()}) {
          schedule.transfers_first = bit(6) || schedule.is_asynchronous;
          const Asker asker{.has_room = bit(7)};
          const bool found = schedule.choose(state, asker).kind != TaskKind::kNone;
          EXPECT_EQ(schedule.has_task(state, asker), found) << bits;
          tasks += found ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(tasks, 1000U);
}

}  // namespace
}  // namespace tzmark
