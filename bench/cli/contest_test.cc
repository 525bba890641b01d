// Tests of the laps of contests, over subjects whose times are made up and a clock that only they move.
#include "cli/contest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

constexpr double kSampleNs = 20e6;

// A machine with a clock of its own. Its speed may drift.
struct FakeMachine {
  std::chrono::steady_clock::time_point now{};
  double drift_per_second = 0;
  std::function<bool(std::size_t samples)> disturbs;  // the lap that ends after so many samples
  std::vector<std::string> order;
};

class FakeSubject final : public Subject {
 public:
  FakeSubject(FakeMachine& machine, std::string name, double slowness, double noise)
      : machine_(machine), slowness_(slowness), noise_(noise), random_(std::hash<std::string>()(name)) {
    description_.subject = std::move(name);
    description_.bytes = 1 << 20;
  }

  Sample run() override {
    machine_.order.push_back(description_.subject);
    if (fails_ != 0) {
      --fails_;
      throw Error(code_, "made to fail");
    }
    const double at = std::chrono::duration<double>(machine_.now.time_since_epoch()).count();
    // Heavy tails: every twentieth sample takes three times as long.
    double factor = std::exp(noise_ * std::normal_distribution<>()(random_));
    if (noise_ > 0 && random_() % 20 == 0) factor *= 3;
    const double elapsed_ns = kSampleNs * slowness_ * factor * (1 + machine_.drift_per_second * at);
    machine_.now += std::chrono::nanoseconds(static_cast<std::int64_t>(elapsed_ns));
    Sample sample;
    sample.elapsed_ns = static_cast<std::uint64_t>(elapsed_ns);
    return sample;
  }

  void fail(unsigned times, ErrorCode code) {
    fails_ = times;
    code_ = code;
  }

 private:
  FakeMachine& machine_;
  const double slowness_, noise_;
  std::mt19937_64 random_;
  unsigned fails_ = 0;
  ErrorCode code_ = ErrorCode::kReadFailed;
};

class ContestTest : public testing::Test {
 protected:
  FakeSubject& add(std::string name, double slowness, double noise = 0.1) {
    auto subject = std::make_unique<FakeSubject>(machine_, std::move(name), slowness, noise);
    FakeSubject& added = *subject;
    subjects_.push_back({std::move(subject), {}, {}});
    return added;
  }

  static Contest contest(std::size_t a, std::size_t b, double required, bool at_most = false) {
    return {.name = "contest",
            .subjects = {a, b},
            .ratio = [](std::span<const double> seconds) { return seconds[1] / seconds[0]; },
            .required = required,
            .at_most = at_most};
  }

  MachineConditions run(std::span<Contest> contests, std::chrono::seconds budget = std::chrono::minutes(10)) {
    const ContestOptions given = options(budget);
    DisturbanceFilter filter(given.is_disturbed);
    run_contests(subjects_, contests, given, filter);
    return filter.conditions();
  }

  // The machine that runs the test is no part of it.
  ContestOptions options(std::chrono::seconds budget = std::chrono::minutes(10)) {
    return {.budget = budget,
            .is_disturbed =
                [this](const Disturbance&) { return machine_.disturbs && machine_.disturbs(machine_.order.size()); },
            .now = [this] { return machine_.now; }};
  }

  FakeMachine machine_;
  std::vector<Measured> subjects_;
};

TEST_F(ContestTest, DecidesEachWay) {
  add("base", 1, 0.03);
  add("same", 1, 0.03);
  add("slow", 1.2, 0.03);
  std::vector<Contest> contests = {contest(1, 0, 0.95), contest(2, 0, 0.95), contest(2, 0, 1.1, true),
                                   contest(0, 2, 1.1, true)};
  run(contests);
  EXPECT_EQ(contests[0].verdict, BoundVerdict::kPass);
  EXPECT_EQ(contests[1].verdict, BoundVerdict::kFail);
  EXPECT_EQ(contests[2].verdict, BoundVerdict::kPass);
  EXPECT_EQ(contests[3].verdict, BoundVerdict::kFail);
  EXPECT_NEAR(contests[0].interval.interval().estimate, 1, 0.06);
  EXPECT_NEAR(contests[1].interval.interval().estimate, 1 / 1.2, 0.06);
  // What is decided takes no more time.
  EXPECT_LT(std::chrono::duration<double>(machine_.now.time_since_epoch()).count(), 300);
}

TEST_F(ContestTest, ACoinDecidesTheOrderSoThatDriftFavorsNeither) {
  machine_.drift_per_second = 0.2;
  add("a", 1, 0);
  add("b", 1, 0);
  double sum_of_logs = 0;
  constexpr std::uint64_t kRuns = 20;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    machine_.now = {};
    std::vector<Contest> contests = {contest(0, 1, 0.999)};
    ContestOptions seeded = options();
    seeded.seed = seed;
    DisturbanceFilter filter(seeded.is_disturbed);
    run_contests(subjects_, contests, seeded, filter);
    sum_of_logs += std::log(contests[0].interval.interval().estimate);
  }
  std::size_t forwards = 0;
  const std::size_t laps = machine_.order.size() / 2;
  ASSERT_GE(laps, 10 * kRuns);
  for (std::size_t i = 0; i < 2 * laps; i += 2) {
    EXPECT_NE(machine_.order[i], machine_.order[i + 1]);
    forwards += machine_.order[i] == "a" ? 1 : 0;
  }
  EXPECT_GT(forwards, laps / 3);
  EXPECT_LT(forwards, laps * 2 / 3);
  // In a fixed order it would be 0.004.
  EXPECT_NEAR(sum_of_logs / kRuns, 0, 0.001);
}

TEST_F(ContestTest, NoContestIsDecidedInOneRow) {
  for (const char* name : {"a", "base of a", "b", "base of b"}) add(name, 1, 0);
  std::vector<Contest> contests = {contest(0, 1, 0.5), contest(2, 3, 0.5)};
  run(contests);
  ASSERT_EQ(machine_.order.size(), 40U);
  std::size_t rows = 1;
  for (std::size_t i = 2; i < machine_.order.size(); i += 2) {
    const auto is_of_a = [&](std::size_t at) { return machine_.order[at].ends_with("a"); };
    rows += is_of_a(i) != is_of_a(i - 2) ? 1 : 0;
  }
  EXPECT_GE(rows, 4U);
  EXPECT_LE(rows, 6U) << "laps in a row need less preparation";
}

TEST_F(ContestTest, ContestsAgainstTheSameSubjectShareItsSamples) {
  add("base", 1, 0.05);
  add("same", 1, 0.05);
  add("slow", 3, 0.05);
  std::vector<Contest> contests = {contest(1, 0, 0.96), contest(2, 0, 0.9)};
  run(contests);
  EXPECT_EQ(contests[0].verdict, BoundVerdict::kPass);
  EXPECT_EQ(contests[1].verdict, BoundVerdict::kFail);
  const std::size_t longer = std::max(contests[0].interval.pairs(), contests[1].interval.pairs());
  const std::size_t shorter = std::min(contests[0].interval.pairs(), contests[1].interval.pairs());
  EXPECT_EQ(subjects_[0].samples.size(), longer);
  EXPECT_LT(shorter, longer) << "a contest that is decided takes part no more";
  // As long as both are open, a lap has each subject once, in any order.
  std::size_t begins_with_base = 0;
  for (std::size_t lap = 0; lap < shorter; ++lap) {
    const std::vector<std::string> order(machine_.order.begin() + static_cast<std::ptrdiff_t>(3 * lap),
                                         machine_.order.begin() + static_cast<std::ptrdiff_t>(3 * lap + 3));
    EXPECT_THAT(order, testing::UnorderedElementsAre("base", "same", "slow"));
    begins_with_base += order.front() == "base" ? 1 : 0;
  }
  EXPECT_LT(begins_with_base, shorter);
}

TEST_F(ContestTest, AFailureEndsTheContestsOfItsSubjectOnly) {
  add("base", 1);
  add("a", 1).fail(1'000, ErrorCode::kReadFailed);
  add("b", 1);
  std::vector<Contest> contests = {contest(1, 0, 0.9), contest(2, 0, 0.9)};
  run(contests);
  EXPECT_THAT(contests[0].why, HasSubstr("made to fail"));
  EXPECT_EQ(contests[1].verdict, BoundVerdict::kPass);
}

// Where a verdict is borderline, what is left of the budget makes it a clear one.
// Whatever it would do now: its files may not be there.
TEST_F(ContestTest, WhatWasLeftOutBeforeIsNotRun) {
  add("base", 1);
  add("fails to verify", 1);
  subjects_[1].why = "disk full";
  subjects_[1].has_failed = true;
  std::vector<Contest> contests = {contest(1, 0, 0.95), contest(0, 0, 0.95)};
  run(contests);
  EXPECT_EQ(contests[0].why, "disk full");
  EXPECT_EQ(contests[0].interval.pairs(), 0U);
  EXPECT_TRUE(subjects_[1].has_failed);
  EXPECT_THAT(subjects_[1].samples, testing::IsEmpty());
  EXPECT_EQ(contests[1].verdict, BoundVerdict::kPass);
}

TEST_F(ContestTest, TheRestOfTheBudgetGoesToBorderlineRatios) {
  std::vector<Contest> contests;
  for (int i = 0; i < 20; ++i) {
    add("base " + std::to_string(i), 1, 0.16);
    add("faster " + std::to_string(i), 1 / 1.08, 0.16);
    contests.push_back(contest(subjects_.size() - 1, subjects_.size() - 2, 1));
  }
  run(contests, std::chrono::hours(2));
  std::size_t became_clear = 0;
  for (const Contest& contest : contests) {
    // The first verdict of the same pairs.
    SequentialRatio replayed;
    BoundVerdict first = BoundVerdict::kUndecided;
    for (std::size_t i = 0; first == BoundVerdict::kUndecided && i < contest.interval.pairs(); ++i) {
      const auto elapsed_ns = [&](std::size_t subject) {
        return static_cast<double>(subjects_[subject].samples[i].elapsed_ns);
      };
      replayed.add(std::log(elapsed_ns(contest.subjects[1]) / elapsed_ns(contest.subjects[0])));
      first = judge_ratio(replayed.interval(), 1, false);
    }
    if (first == BoundVerdict::kPassBorderline && contest.verdict == BoundVerdict::kPass) ++became_clear;
    EXPECT_LE(contest.interval.pairs(), first == BoundVerdict::kPass ? replayed.pairs() : 2 * replayed.pairs());
  }
  EXPECT_GE(became_clear, 3U);
}

TEST_F(ContestTest, ARatioInTheZoneTakesNoMoreThanTwiceItsLaps) {
  add("base", 1);
  add("edge", 1 / 0.97);
  std::vector<Contest> contests = {contest(1, 0, 1)};
  run(contests, std::chrono::hours(2));
  EXPECT_THAT(contests[0].verdict, AnyOf(BoundVerdict::kBorderline, BoundVerdict::kPassBorderline));
  EXPECT_LT(std::chrono::duration<double>(machine_.now.time_since_epoch()).count(), 1800);
}

TEST_F(ContestTest, TheBudgetIsKeptAndSaysUndecided) {
  add("base", 1, 0.5);
  add("same", 1 / 0.96, 0.5);
  std::vector<Contest> contests = {contest(1, 0, 0.95)};
  run(contests, std::chrono::seconds(4));
  EXPECT_EQ(contests[0].verdict, BoundVerdict::kUndecided);
  EXPECT_LT(std::chrono::duration<double>(machine_.now.time_since_epoch()).count(), 4.6);
  EXPECT_GT(contests[0].interval.pairs(), 10U);
}

TEST_F(ContestTest, ShortBudgetsGoToWhatCanBeDecided) {
  add("base", 1, 0.2);
  add("half", 2, 0.2);
  add("edge", 1 / 0.935, 0.2);
  std::vector<Contest> contests = {contest(2, 0, 0.95), contest(1, 0, 0.95)};
  run(contests, std::chrono::seconds(5));
  EXPECT_EQ(contests[0].verdict, BoundVerdict::kUndecided);
  EXPECT_EQ(contests[1].verdict, BoundVerdict::kFail);
}

TEST_F(ContestTest, OneFailedTransferIsTriedAgainAndEndsNothing) {
  add("base", 1);
  add("a", 1).fail(2, ErrorCode::kReadFailed);
  add("b", 1).fail(1'000, ErrorCode::kReadFailed);
  add("c", 1).fail(1, ErrorCode::kUnavailable);
  std::vector<Contest> contests = {contest(1, 0, 0.9), contest(2, 0, 0.9), contest(3, 0, 0.9)};
  run(contests);
  EXPECT_EQ(contests[0].verdict, BoundVerdict::kPass);
  EXPECT_THAT(contests[1].why, HasSubstr("made to fail"));
  EXPECT_THAT(contests[2].why, HasSubstr("made to fail"));
}

TEST_F(ContestTest, WrongBytesAreThrown) {
  add("base", 1);
  add("a", 1).fail(1, ErrorCode::kFileChanged);
  std::vector<Contest> contests = {contest(1, 0, 0.9)};
  EXPECT_THROW(run(contests), Error);
}

TEST_F(ContestTest, LapsAreLimitedIfAsked) {
  add("base", 1);
  add("a", 1);
  std::vector<Contest> contests = {contest(1, 0, 0.9)};
  ContestOptions limited = options();
  limited.laps_max = 3;
  DisturbanceFilter filter(limited.is_disturbed);
  run_contests(subjects_, contests, limited, filter);
  EXPECT_EQ(contests[0].interval.interval().pairs, 3U);
  EXPECT_EQ(contests[0].verdict, BoundVerdict::kUndecided);
  EXPECT_EQ(subjects_[0].samples.size(), 3U);
}

TEST_F(ContestTest, DisturbedLapsAreRepeated) {
  add("base", 1);
  add("a", 1);
  machine_.disturbs = [](std::size_t samples) { return samples / 2 % 2 == 1; };
  std::vector<Contest> contests = {contest(1, 0, 0.8)};
  const MachineConditions conditions = run(contests);
  EXPECT_EQ(contests[0].verdict, BoundVerdict::kPass);
  EXPECT_EQ(contests[0].disturbed_laps, contests[0].interval.pairs());
  EXPECT_EQ(conditions.disturbed_laps, contests[0].disturbed_laps);
  EXPECT_EQ(conditions.laps, 2 * contests[0].interval.pairs());
  EXPECT_FALSE(conditions.was_busy);
}

// One of them must not count as often as it has contests.
TEST_F(ContestTest, ADisturbedLapOfManyContestsIsOneLap) {
  add("base", 1, 0.05);
  std::vector<Contest> contests;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    add(name, 1, 0.05);
    contests.push_back(contest(subjects_.size() - 1, 0, 0.8));
  }
  // The first ten laps.
  machine_.disturbs = [](std::size_t samples) { return samples <= 60; };
  const MachineConditions conditions = run(contests);
  EXPECT_FALSE(conditions.was_busy);
  EXPECT_EQ(conditions.disturbed_laps, 10U);
  for (const Contest& contest : contests) {
    EXPECT_EQ(contest.disturbed_laps, 10U);
    EXPECT_EQ(contest.verdict, BoundVerdict::kPass);
  }
}

TEST_F(ContestTest, OneSubjectMayBeComparedWithANumber) {
  add("a", 1, 0.05);
  std::vector<Contest> contests = {
      {.name = "a number",
       .subjects = {0},
       .ratio = [](std::span<const double> seconds) { return kSampleNs / 1e9 / (1 << 20) / seconds[0]; },
       .required = 0.8}};
  run(contests);
  EXPECT_EQ(contests[0].verdict, BoundVerdict::kPass);
}

TEST_F(ContestTest, OnABusyMachineLapsCountAndItIsSaid) {
  add("base", 1);
  add("a", 1);
  machine_.disturbs = [](std::size_t) { return true; };
  std::vector<Contest> contests = {contest(1, 0, 0.8)};
  const MachineConditions conditions = run(contests);
  EXPECT_EQ(contests[0].verdict, BoundVerdict::kPass);
  EXPECT_TRUE(conditions.was_busy);
  EXPECT_GE(contests[0].disturbed_laps, 30U);
}

}  // namespace
}  // namespace tzmark::bench
