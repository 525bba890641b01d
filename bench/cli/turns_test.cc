// Tests of two builds in turn, with processes whose times are made up and a clock that only they move.
#include "cli/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kSampleSeconds = 0.02;

// What all processes of a test share.
struct FakeBuilds {
  std::chrono::steady_clock::time_point now{};
  std::mt19937_64 random = std::mt19937_64(1);
  double drift_per_second = 0;
  double process_spread = 0.01, sample_spread = 0.05;
  std::vector<std::string> started = {}, order = {};
  std::vector<Error> failures = {};  // of the new build; the last is thrown first
  std::size_t failures_after = 0;    // samples of both builds
  bool is_disturbed = false, failures_are_deaths = false;
  std::size_t samples_of_a_process = 0;  // of the new build, after which each one dies; 0 = none dies
  std::uint64_t new_bytes = 1 << 20;
};

// Each process has a speed of its own.
class FakeProcess final : public BuildProcess {
 public:
  FakeProcess(FakeBuilds& builds, std::string name, double slowness)
      : builds_(builds), name_(std::move(name)), slowness_(slowness * std::exp(builds.process_spread * normal())) {
    builds_.started.push_back(name_);
  }

  TurnSample sample(std::size_t line) override {
    builds_.order.push_back(name_);
    if (name_ == "new" && builds_.samples_of_a_process != 0 && ++samples_ > builds_.samples_of_a_process) {
      is_running_ = false;
      throw Error(ErrorCode::kResource, "died");
    }
    if (name_ == "new" && line == 0 && !builds_.failures.empty() && builds_.order.size() > builds_.failures_after) {
      const Error failure = builds_.failures.back();
      builds_.failures.pop_back();
      is_running_ = !builds_.failures_are_deaths;
      throw failure;
    }
    const double at = std::chrono::duration<double>(builds_.now.time_since_epoch()).count();
    double seconds = kSampleSeconds * slowness_ * std::exp(builds_.sample_spread * normal());
    seconds *= 1 + builds_.drift_per_second * at;
    // Heavy tails.
    if (builds_.random() % 20 == 0) seconds *= 3;
    builds_.now += std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    return {.seconds_per_byte = seconds / (1 << 20),
            .bytes = name_ == "new" ? builds_.new_bytes : 1 << 20,
            .disturbance = {.steal_ns = builds_.is_disturbed ? 1U : 0U}};
  }
  bool is_running() const override { return is_running_; }

 private:
  double normal() { return std::normal_distribution<>()(builds_.random); }

  FakeBuilds& builds_;
  const std::string name_;
  const double slowness_;
  std::size_t samples_ = 0;
  bool is_running_ = true;
};

class TurnsTest : public testing::Test {
 protected:
  std::vector<TurnLine> run(double new_slowness, std::size_t lines, std::chrono::seconds budget) {
    std::vector<TurnLine> turns(lines, TurnLine(0.01 / static_cast<double>(lines)));
    TurnOptions options;
    options.budget = budget;
    options.seed = seed_;
    options.now = [this] { return builds_.now; };
    options.is_disturbed = [](const Disturbance& disturbance) { return disturbance.steal_ns > 0; };
    conditions_ =
        run_in_turn([this] { return std::make_unique<FakeProcess>(builds_, "old", 1.0); },
                    [&] { return std::make_unique<FakeProcess>(builds_, "new", new_slowness); }, turns, options);
    return turns;
  }

  FakeBuilds builds_;
  MachineConditions conditions_;
  std::uint64_t seed_ = 1;
};

TEST_F(TurnsTest, FindASlowDownOfThreePercent) {
  for (seed_ = 1; seed_ <= 10; ++seed_) {
    builds_ = {.random = std::mt19937_64(seed_)};
    const TurnLine line = run(1 / 0.97, 1, std::chrono::minutes(30)).front();
    EXPECT_EQ(line.verdict, ChangeVerdict::kSlower);
    EXPECT_NEAR(line.ratio.interval().estimate, 0.97, 0.02);
  }
}

TEST_F(TurnsTest, CallNoEqualBuildSlower) {
  for (seed_ = 1; seed_ <= 20; ++seed_) {
    builds_ = {.random = std::mt19937_64(seed_), .drift_per_second = 0.01};
    for (const TurnLine& line : run(1, 3, std::chrono::minutes(10))) EXPECT_NE(line.verdict, ChangeVerdict::kSlower);
  }
}

TEST_F(TurnsTest, StartFreshProcessesOfBothSidesInRandomOrder) {
  run(1, 1, std::chrono::seconds(20));
  ASSERT_GT(builds_.started.size(), 20U);
  std::size_t old_first = 0;
  for (std::size_t i = 0; i + 1 < builds_.started.size(); i += 2) {
    EXPECT_NE(builds_.started[i], builds_.started[i + 1]);
    old_first += builds_.started[i] == "old" ? 1 : 0;
  }
  EXPECT_GT(old_first, 0U);
  EXPECT_LT(old_first, builds_.started.size() / 2);
}

TEST_F(TurnsTest, LapsAreMirrored) {
  run(1, 1, std::chrono::seconds(2));
  ASSERT_GE(builds_.order.size(), 4U);
  for (std::size_t i = 0; i + 3 < builds_.order.size(); i += 4) {
    EXPECT_EQ(builds_.order[i], builds_.order[i + 3]);
    EXPECT_EQ(builds_.order[i + 1], builds_.order[i + 2]);
    EXPECT_NE(builds_.order[i], builds_.order[i + 1]);
  }
}

TEST_F(TurnsTest, ASpentBudgetLeavesLinesUndecided) {
  const TurnLine line = run(1, 1, std::chrono::seconds(1)).front();
  EXPECT_EQ(line.verdict, ChangeVerdict::kUndecided);
  EXPECT_EQ(line.ratio.interval().low, 0) << "too few pairs for an interval";
}

TEST_F(TurnsTest, OneFailureIsRepeatedAndThreeEndTheLineAlone) {
  const Error failure(ErrorCode::kReadFailed, "made to fail");
  builds_.failures = {failure, failure};
  EXPECT_THAT(run(1, 1, std::chrono::seconds(1)).front().why, "");
  builds_.failures = {failure, failure, failure};
  const std::vector<TurnLine> lines = run(1, 2, std::chrono::seconds(1));
  EXPECT_THAT(lines[0].why, HasSubstr("made to fail"));
  EXPECT_EQ(lines[1].why, "");
  EXPECT_GT(lines[1].ratio.pairs(), 0U);
}

TEST_F(TurnsTest, AProcessThatDiesOfALineEndsItsPairAlone) {
  const Error death(ErrorCode::kResource, "killed");
  builds_.failures_are_deaths = true;
  builds_.failures = {death, death};
  std::vector<TurnLine> lines = run(1, 2, std::chrono::seconds(5));
  EXPECT_EQ(lines[0].why, "") << "twice may be chance";
  EXPECT_GT(lines[0].ratio.pairs(), 0U);
  builds_.failures = {death, death, death};
  lines = run(1, 2, std::chrono::seconds(5));
  EXPECT_EQ(lines[0].why, "killed");
  EXPECT_EQ(lines[1].why, "");
  EXPECT_GT(lines[1].ratio.pairs(), 5U);
}

// The table shows rates of these laps, so their ratio has to count too.
TEST_F(TurnsTest, ADeathTakesNoLapsBeforeIt) {
  const Error death(ErrorCode::kResource, "killed");
  builds_.failures_are_deaths = true;
  builds_.failures = {death, death, death};
  builds_.failures_after = 8;  // two laps
  const TurnLine line = run(1, 1, std::chrono::seconds(5)).front();
  EXPECT_EQ(line.why, "killed");
  EXPECT_EQ(line.old_seconds.size(), 4U);
  EXPECT_EQ(line.ratio.pairs(), 1U);
}

// Each process measures a lap and dies of the next one, so that every failure comes after success.
TEST_F(TurnsTest, ABuildWhoseEveryProcessDiesIsNotMeasured) {
  builds_.samples_of_a_process = 3;
  const TurnLine line = run(1, 1, std::chrono::minutes(10)).front();
  EXPECT_THAT(line.why, HasSubstr("died"));
  EXPECT_EQ(line.failures, 3U);
  EXPECT_LE(line.ratio.pairs(), 3U);
}

TEST_F(TurnsTest, DifferentAmountsAreNoComparison) {
  builds_.new_bytes = 1 << 21;
  EXPECT_THAT(run(1, 1, std::chrono::seconds(5)).front().why, HasSubstr("different amounts"));
}

TEST_F(TurnsTest, WrongBytesEndEverything) {
  builds_.failures = {Error(ErrorCode::kFileChanged, "wrong bytes")};
  EXPECT_THROW(run(1, 2, std::chrono::seconds(1)), Error);
}

TEST_F(TurnsTest, DisturbedLapsCountOnlyWhereAllAre) {
  builds_.is_disturbed = true;
  const TurnLine line = run(1, 1, std::chrono::seconds(60)).front();
  EXPECT_TRUE(conditions_.was_busy);
  EXPECT_GT(line.disturbed_laps, 20U);
  EXPECT_LT(line.disturbed_laps, 40U);
  EXPECT_GT(line.ratio.pairs(), 0U);
}

}  // namespace
}  // namespace tzmark::bench
