// Laps over simulated sources: what counts, what is tried again, and what ends a run.
#include "measure/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace tzmark::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using namespace std::chrono_literals;

// Source i takes i + 1 seconds per byte, and each sample a second of simulated time.
class SimulatedSource final : public Source {
 public:
  SourceSample take(std::size_t source) override {
    taken.push_back(source);
    now += 1s;
    if (at_take) at_take(source);
    return {static_cast<double>(source + 1), {.elapsed_ns = 1, .steal_ns = is_disturbed ? 1U : 0U}};
  }
  bool can_retry(std::size_t) const override { return !is_dead; }
  void note_failure(std::size_t, const SourceFailure&) override { ++failures; }
  void leave_out(std::size_t source, const SourceFailure& failure) override {
    if (rethrows) Source::leave_out(source, failure);
    left_out.push_back(source);
    latest = failure;
  }

  std::function<void(std::size_t)> at_take;
  std::vector<std::size_t> taken, left_out;
  int failures = 0;
  SourceFailure latest;
  StoppingRule::Clock::time_point now{};
  bool is_disturbed = false, is_dead = false, rethrows = false, is_stopped = false;
};

class EngineTest : public testing::Test {
 protected:
  Engine engine(unsigned tries = 3, std::optional<std::chrono::seconds> time = {}) {
    StoppingRule rule{.stop = [this] { return source_.is_stopped; }, .now = [this] { return source_.now; }};
    if (time) rule.end = source_.now + *time;
    return {source_, filter_, std::move(rule), tries};
  }
  // The next takes fail.
  void fail(int times, ErrorCode code = ErrorCode::kReadFailed) {
    source_.at_take = [times, code](std::size_t) mutable {
      if (times-- > 0) throw Error(code, "made to fail");
    };
  }

  SimulatedSource source_;
  DisturbanceFilter filter_{[](const Disturbance& lap) { return lap.steal_ns > 0; }};
};

TEST_F(EngineTest, TakesTheLapsOfASchedule) {
  Engine engine = this->engine();
  std::vector<std::vector<std::size_t>> orders = {{}, {1}, {0, 2, 2, 0}};
  std::vector<Lap> laps;
  engine.run({[&] {
                const auto order = orders.back();
                orders.pop_back();
                return order;
              },
              [&](const Lap& lap) { laps.push_back(lap); }});
  EXPECT_THAT(source_.taken, ElementsAre(0, 2, 2, 0, 1));
  ASSERT_THAT(laps, SizeIs(2));
  EXPECT_THAT(laps[0].samples, SizeIs(4));
  EXPECT_EQ(laps[0].disturbance.elapsed_ns, 4U);
  EXPECT_EQ(laps[1].of(1).seconds_per_byte, 2);
  EXPECT_EQ(laps[1].of(1).length, 1s);
  EXPECT_EQ(filter_.conditions().laps, 2U);
}

TEST_F(EngineTest, LogsLapsThatDoNotCountWithTheirReason) {
  Engine engine = this->engine(1);
  engine.take({0});
  source_.is_disturbed = true;
  EXPECT_EQ(engine.take({0, 1}).result, LapResult::kDisturbed);
  source_.is_disturbed = false;
  source_.at_take = [](std::size_t source) {
    if (source == 1) throw Error(ErrorCode::kReadFailed, "made to fail");
  };
  EXPECT_EQ(engine.take({0, 1, 2}).result, LapResult::kFailed);
  std::vector<std::pair<std::size_t, LapResult>> logged;
  for (const SampleLog::Entry& entry : engine.log().entries()) logged.emplace_back(entry.source, entry.result);
  EXPECT_THAT(logged, ElementsAre(std::pair(0, LapResult::kCounts), std::pair(0, LapResult::kDisturbed),
                                  std::pair(1, LapResult::kDisturbed), std::pair(0, LapResult::kFailed)));
  EXPECT_EQ(filter_.conditions().laps, 2U) << "what is not complete tells nothing of the machine";
  EXPECT_EQ(engine.log().mean_length_ns(0), 1e9);
  EXPECT_EQ(engine.log().mean_length_ns(7), 0);
}

TEST_F(EngineTest, TriesAFailureAgain) {
  fail(2);
  const Lap lap = engine().take({0});
  EXPECT_EQ(lap.result, LapResult::kCounts);
  EXPECT_EQ(lap.of(0).length, 3s);
  EXPECT_THAT(source_.left_out, IsEmpty());
}

TEST_F(EngineTest, LeavesOutWhatFailsThreeTimesInARow) {
  fail(3);
  EXPECT_EQ(engine().take({0}).result, LapResult::kFailed);
  EXPECT_THAT(source_.left_out, ElementsAre(0));
  EXPECT_TRUE(source_.latest.has_failed);
  EXPECT_EQ(source_.latest.message, "made to fail");
}

TEST_F(EngineTest, WhatThisMachineLacksIsNotTriedAgain) {
  fail(1, ErrorCode::kUnavailable);
  EXPECT_EQ(engine().take({0}).result, LapResult::kFailed);
  EXPECT_FALSE(source_.latest.has_failed);
}

TEST_F(EngineTest, FailuresOfADeadSourceAddUpUntilALapIsComplete) {
  Engine engine = this->engine();
  source_.is_dead = true;
  fail(2);
  engine.take({0});
  engine.take({0});
  EXPECT_THAT(source_.left_out, IsEmpty());
  EXPECT_EQ(engine.take({0}).result, LapResult::kCounts);
  fail(2);
  engine.take({0});
  engine.take({0});
  EXPECT_THAT(source_.left_out, IsEmpty());
  fail(1);
  engine.take({0});
  EXPECT_THAT(source_.left_out, ElementsAre(0));
}

TEST_F(EngineTest, FailuresMayAddUpOverCompleteLaps) {
  Engine engine(source_, filter_, {.now = [this] { return source_.now; }}, 3, Engine::Failures::kInAll);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(source_.left_out, IsEmpty());
    source_.is_dead = true;
    fail(1);
    engine.take({0});
    source_.is_dead = false;
    if (i < 2) {
      EXPECT_EQ(engine.take({0}).result, LapResult::kCounts);
    }
  }
  EXPECT_THAT(source_.left_out, ElementsAre(0));
  EXPECT_EQ(source_.failures, 3);
}

TEST_F(EngineTest, ThrowsWrongBytesAndWhatIsNoFailure) {
  fail(1, ErrorCode::kFileChanged);
  EXPECT_THROW(engine().take({0}), Error);
  source_.at_take = [](std::size_t) { throw 1; };
  EXPECT_THROW(engine().take({0}), int);
  source_.rethrows = true;
  source_.at_take = [](std::size_t) { throw std::runtime_error("no file"); };
  EXPECT_THROW(engine(1).take({0}), std::runtime_error);
  EXPECT_THAT(source_.left_out, IsEmpty());
}

TEST_F(EngineTest, EndsAtItsTime) {
  Engine engine = this->engine(3, 5s);
  const Schedule always = {[] { return std::vector<std::size_t>{0, 1}; }};
  engine.run(always);
  EXPECT_THAT(source_.taken, SizeIs(6)) << "a lap that has begun is completed";
  engine.set_end(source_.now + 1s);
  engine.run(always);
  EXPECT_THAT(source_.taken, SizeIs(8));
}

TEST_F(EngineTest, ARequestToStopInterruptsALap) {
  source_.at_take = [&](std::size_t source) { source_.is_stopped = source == 1; };
  Engine engine = this->engine();
  std::vector<LapResult> results;
  engine.run({[] {
                return std::vector<std::size_t>{0, 1, 2};
              },
              [&](const Lap& lap) { results.push_back(lap.result); }});
  EXPECT_THAT(results, ElementsAre(LapResult::kInterrupted));
  EXPECT_THAT(source_.taken, ElementsAre(0, 1));
}

}  // namespace
}  // namespace tzmark::bench
