// Checks over subjects whose times are made up, with a clock that only they move.
#include "cli/check_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "subjects/others.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using testing::HasSubstr;

// What all subjects of a test share.
struct TimedMachine {
  std::chrono::steady_clock::time_point now{};
  bool is_disturbed = false;  // the latest sample
};

class TimedSubject final : public Subject {
 public:
  TimedSubject(TimedMachine& machine, std::string name, double milliseconds, double noise)
      : machine_(machine), milliseconds_(milliseconds), noise_(noise), random_(std::hash<std::string>()(name)) {
    description_.subject = std::move(name);
    description_.bytes = 1 << 20;
  }

  void verify() override {
    if (!why_.empty()) throw Error(ErrorCode::kUnavailable, why_);
    if (moves_wrong_bytes_) throw Error(ErrorCode::kFileChanged, "wrong bytes");
    if (has_ended_) throw Error(ErrorCode::kResource, "the peer has ended");
  }

  Sample run() override {
    if (fails_) throw Error(ErrorCode::kWriteFailed, "no space left");
    const double elapsed_ns = milliseconds_ * 1e6 * std::exp(noise_ * std::normal_distribution<>()(random_));
    machine_.now += std::chrono::nanoseconds(static_cast<std::int64_t>(elapsed_ns));
    Sample sample;
    sample.elapsed_ns = static_cast<std::uint64_t>(elapsed_ns);
    machine_.is_disturbed = disturbed_ > 0;
    if (disturbed_ > 0) {
      --disturbed_;
      sample.elapsed_ns *= 3;
    }
    return sample;
  }

  void lack(std::string why) { why_ = std::move(why); }
  void fail() { fails_ = true; }
  void move_wrong_bytes() { moves_wrong_bytes_ = true; }
  void end() { has_ended_ = true; }
  // Others disturb the next runs, which take three times as long.
  void disturb(int runs) { disturbed_ = runs; }

 private:
  TimedMachine& machine_;
  const double milliseconds_, noise_;
  std::mt19937_64 random_;
  std::string why_;
  bool fails_ = false, moves_wrong_bytes_ = false, has_ended_ = false;
  int disturbed_ = 0;
};

class CheckGroupTest : public testing::Test {
 protected:
  CheckGroupTest() : place_(directory_ / "place") {
    options_.contests.now = [this] { return machine_.now; };
    options_.contests.is_disturbed = is_disturbed_;
  }

  CheckGroup::Index add(const std::string& name, double milliseconds, double noise = 0.1, const std::string& why = "") {
    auto subject = std::make_unique<TimedSubject>(machine_, name, milliseconds, noise);
    if (!why.empty()) subject->lack(why);
    latest_ = subject.get();
    return group_.add(std::move(subject));
  }

  std::vector<RatioCheck> decide() {
    group_.run(std::chrono::minutes(60), filter_);
    std::vector<RatioCheck> checks;
    group_.finish([&](const auto&, const auto&, const std::vector<RatioCheck>& concluded) { checks = concluded; });
    return checks;
  }

  TimedMachine machine_;
  const std::function<bool(const Disturbance&)> is_disturbed_ = [this](const Disturbance&) {
    return machine_.is_disturbed;
  };
  test::TestDirectory directory_;
  Workplace place_;
  CheckOptions options_;
  CheckGroup group_{place_, options_, "group"};
  TimedSubject* latest_ = nullptr;  // that was added
  DisturbanceFilter filter_{is_disturbed_};
};

TEST_F(CheckGroupTest, NoiseDoesNotRaiseTheLimitOfTwoEqualParts) {
  // The larger one of two noisy times is 11 % larger than either in the mean.
  const auto path = add("path", 20, 0.2);
  const auto step = add("step", 20, 0.2);
  const auto codec = add("codec", 20, 0.01);
  group_.against_steps("2", "with a device", codec, path, {step}, true, 1.0);
  const RatioCheck check = decide().front();
  EXPECT_GT(check.ratio.pairs, 20U);
  EXPECT_NEAR(check.ratio.estimate, 1.0, 0.05);
}

TEST_F(CheckGroupTest, StepsOnTheSameCoresAddUp) {
  const auto path = add("path", 10, 0.02);
  const auto one = add("one", 20, 0.02);
  const auto other = add("other", 30, 0.02);
  group_.against_steps("2", "in turn", add("codec", 62, 0.02), path, {one, other}, false, 0.9);
  const RatioCheck check = decide().front();
  EXPECT_EQ(check.verdict, BoundVerdict::kPass);
  EXPECT_NEAR(check.ratio.estimate, 60.0 / 62, 0.02);
}

TEST_F(CheckGroupTest, TheBestOfEachSideCountsAndTheOthersAreNamed) {
  const auto slow = add("slow", 40);
  const auto fast = add("fast", 20);
  const auto missing = add("missing", 10, 0.1, "it is not installed");
  const auto peer = add("peer", 30);
  group_.best_ratio({.item = "4", .name = "best", .required = 1.2}, {slow, fast}, {missing, peer});
  const RatioCheck check = decide().front();
  EXPECT_EQ(check.verdict, BoundVerdict::kPass);
  EXPECT_NEAR(check.ratio.estimate, 1.5, 0.15);
  EXPECT_THAT(check.note, HasSubstr("best: fast"));
  EXPECT_THAT(check.note, HasSubstr("against peer"));
  EXPECT_THAT(check.note, HasSubstr("; without missing"));
  EXPECT_THAT(check.note, HasSubstr("it is not installed"));
}

TEST_F(CheckGroupTest, APeerThatEndsLeavesOnlyItsOwnLinesUnmeasured) {
  const auto ours = add("ours", 20);
  const auto broken = add("peer", 30);
  latest_->end();
  const auto works = add("peer", 90);
  const auto raw = add("raw", 20);
  group_.best_ratio({.item = "4", .name = "against the peer", .required = 1}, {ours}, {broken});
  // It was perhaps the best.
  group_.best_ratio({.item = "4", .name = "against both peers", .required = 1}, {ours}, {works, broken});
  group_.best_ratio({.item = "4", .name = "too slow", .required = 9}, {ours}, {works, broken});
  group_.ratio("1", "against raw", ours, raw, 0.7);
  const std::vector<RatioCheck> checks = decide();
  ASSERT_EQ(checks.size(), 4U);
  for (const RatioCheck& check : {checks[0], checks[1]}) {
    EXPECT_FALSE(check.verdict) << check.name << ": not measured";
    EXPECT_THAT(check.note, HasSubstr("the peer has ended"));
  }
  EXPECT_EQ(checks[2].verdict, BoundVerdict::kFail) << "also against what is left";
  EXPECT_EQ(checks[3].verdict, BoundVerdict::kPass);
}

TEST_F(CheckGroupTest, OurPythonModuleIsNoneOfTheOthers) {
  const auto ours = add("peer", 20);
  latest_->description().peer = {{"name", kPythonModule}};
  latest_->end();
  const auto theirs = add("peer", 20);
  latest_->description().detail = "theirs";
  group_.ratio("9", "against safetensors", ours, theirs, 0.9);
  group_.ratio("1", "codec against raw", add("codec", 20), add("raw", 20), 0.7);
  const std::vector<RatioCheck> checks = decide();
  EXPECT_EQ(checks[0].verdict, BoundVerdict::kFail);
  EXPECT_THAT(checks[0].note, HasSubstr("the peer has ended"));
  EXPECT_EQ(checks[1].verdict, BoundVerdict::kPass) << "its failure is its own";
}

TEST_F(CheckGroupTest, AnInterruptionKeepsWhatIsDecided) {
  const auto codec = add("codec", 20);
  const auto raw = add("raw", 20);
  options_.contests.stop = [this, begin = machine_.now] { return machine_.now - begin > std::chrono::seconds(2); };
  group_.ratio("1", "decided", codec, raw, 0.7);
  group_.ratio("1", "open", codec, raw, 1);
  const std::vector<RatioCheck> checks = decide();
  EXPECT_EQ(checks[0].verdict, BoundVerdict::kPass);
  EXPECT_GT(checks[1].ratio.pairs, 0U);
  EXPECT_LT(checks[1].ratio.pairs, 100U);
}

TEST_F(CheckGroupTest, AnInterruptionBeforeTheFirstLapMeasuresNothing) {
  const auto ours = add("ours", 20);
  options_.contests.stop = [] { return true; };
  group_.best_ratio({.item = "4", .name = "best", .required = 1}, {ours}, {add("peer", 30), add("other", 30)});
  group_.run(std::chrono::minutes(60), filter_);
  group_.finish([](const auto&, const std::vector<Measured>& measured, const std::vector<RatioCheck>& checks) {
    for (const Measured& one : measured) EXPECT_THAT(one.why, HasSubstr("interrupted"));
    EXPECT_EQ(checks.front().ratio.pairs, 0U);
    EXPECT_EQ(checks.front().verdict, BoundVerdict::kUndecided);
  });
}

TEST_F(CheckGroupTest, OurPythonModuleThatFailsInALapFails) {
  const auto ours = add("peer", 20);
  latest_->description().peer = {{"name", kPythonModule}};
  latest_->fail();
  const auto theirs = add("peer", 20);
  latest_->description().detail = "theirs";
  group_.ratio("9", "against safetensors", ours, theirs, 0.9);
  EXPECT_EQ(decide().front().verdict, BoundVerdict::kFail);
}

TEST_F(CheckGroupTest, WrongBytesAreThrown) {
  for (const char* const subject : {"codec", "peer"}) {
    CheckGroup group(place_, options_, "group");
    auto wrong = std::make_unique<TimedSubject>(machine_, subject, 20, 0.1);
    wrong->move_wrong_bytes();
    const auto measured = group.add(std::move(wrong));
    group.ratio("1", "against raw", measured, measured, 0.9);
    EXPECT_THROW(group.run(std::chrono::minutes(1), filter_), Error) << subject;
  }
}

// Otherwise a disturbance would choose the other side of the ratio.
TEST_F(CheckGroupTest, DisturbedSamplesDoNotChooseTheBest) {
  const auto ours = add("ours", 20, 0.01);
  const auto fast = add("fast", 20, 0.01);
  latest_->disturb(4);
  const auto slow = add("slow", 40, 0.01);
  group_.best_ratio({.item = "4", .name = "best", .required = 1.2}, {ours}, {fast, slow});
  const RatioCheck check = decide().front();
  EXPECT_THAT(check.note, HasSubstr("against fast"));
  EXPECT_EQ(check.verdict, BoundVerdict::kFail);
}

TEST_F(CheckGroupTest, ChoosesOnAMachineThatIsAlwaysBusyToo) {
  const auto ours = add("ours", 20, 0.01);
  latest_->disturb(1'000'000);
  const auto slow = add("slow", 40, 0.01);
  latest_->disturb(1'000'000);
  const auto fast = add("fast", 20, 0.01);
  latest_->disturb(1'000'000);
  group_.best_ratio({.item = "4", .name = "best", .required = 0.9}, {ours}, {slow, fast});
  const RatioCheck check = decide().front();
  EXPECT_THAT(check.note, HasSubstr("against fast"));
  EXPECT_EQ(check.verdict, BoundVerdict::kPass);
  EXPECT_TRUE(filter_.conditions().was_busy);
}

// It breaks: what is not measured would pass.
TEST_F(CheckGroupTest, APathThatBreaksFails) {
  const auto codec = add("codec", 20);
  latest_->fail();
  group_.ratio("1", "codec against raw", codec, add("raw", 20), 0.95);
  const RatioCheck check = decide().front();
  EXPECT_EQ(check.verdict, BoundVerdict::kFail);
  EXPECT_THAT(check.note, HasSubstr("no space left"));
}

TEST_F(CheckGroupTest, APathThatBreaksFailsAlsoWhereAnotherOneIsTheBest) {
  const auto works = add("codec", 20);
  const auto breaks = add("codec 2", 10);
  latest_->fail();
  group_.best_ratio({.item = "4", .name = "best", .required = 1.2}, {works, breaks}, {add("peer", 30)});
  const RatioCheck check = decide().front();
  EXPECT_EQ(check.verdict, BoundVerdict::kFail);
  EXPECT_THAT(check.note, HasSubstr("no space left"));
}

TEST_F(CheckGroupTest, APeerThatBreaksIsNotMeasured) {
  const auto peer = add("peer", 30);
  latest_->fail();
  group_.best_ratio({.item = "4", .name = "best", .required = 1.2}, {add("codec", 20)}, {peer});
  const RatioCheck check = decide().front();
  EXPECT_FALSE(check.verdict);
  EXPECT_THAT(check.note, HasSubstr("no space left"));
}

// A short group would end before it found out.
TEST_F(CheckGroupTest, KnowsFromEarlierGroupsThatTheMachineIsBusy) {
  machine_.is_disturbed = true;
  for (int i = 0; i < 40; ++i) filter_.add({});
  const auto codec = add("codec", 20, 0.01);
  latest_->disturb(1'000'000);
  const auto raw = add("raw", 20, 0.01);
  latest_->disturb(1'000'000);
  group_.ratio("1", "codec against raw", codec, raw, 0.9);
  const RatioCheck check = decide().front();
  EXPECT_EQ(check.verdict, BoundVerdict::kPass);
  EXPECT_EQ(check.disturbed_laps, 0U);
}

TEST_F(CheckGroupTest, WithoutAnyCandidateNothingIsMeasured) {
  const auto ours = add("ours", 20);
  const auto peer = add("peer", 30, 0.1, "it is not installed");
  const auto other = add("other", 30, 0.1, "nor is this");
  group_.best_ratio({.item = "4", .name = "best", .required = 1.2}, {ours}, {peer, other});
  const RatioCheck check = decide().front();
  EXPECT_FALSE(check.verdict);
  EXPECT_THAT(check.note, HasSubstr("not"));
}

TEST(CheckContents, HaveMoreTensorsOfTheSameSizeForPathsThatBypassThePageCache) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const CheckOptions options;
  const auto expect = [](const Workload& workload, std::size_t tensors, std::uint64_t bytes) {
    const TensorContent content(workload);
    EXPECT_EQ(content.table().size(), tensors);
    EXPECT_EQ(content.data_bytes(), bytes);
  };
  expect(large_tensors(options), 32, 128 * kMiB);
  expect(large_tensors(options, "mmap"), 32, 128 * kMiB);
  expect(large_tensors(options, "direct"), 64, 256 * kMiB);
  expect(written_tensors(options, "mmap"), 32, 64 * kMiB);
  expect(written_tensors(options, "uring-direct"), 128, 256 * kMiB);
}

// As on 16 cores with eight lanes.
TEST(CheckContents, HaveAsManyTensorsAsTheCoresHashAtOnce) {
  EXPECT_EQ(large_tensors_for(1, 4), kLargeTensorsMin);
  EXPECT_EQ(large_tensors_for(2, 16), kLargeTensorsMin);
  EXPECT_EQ(large_tensors_for(16, 8), 128U);
  EXPECT_EQ(large_tensors_for(192, 16), 512U);
  const CheckOptions options{.scale_bytes = 128 * kLargeTensorBytes, .large_tensors = 128};
  for (const std::string_view io : {"", "direct"}) {
    EXPECT_EQ(large_tensors(options, io).largest_tensor_bytes(), kLargeTensorBytes) << io;
    EXPECT_EQ(written_tensors(options, io).largest_tensor_bytes(), kLargeTensorBytes / 2) << io;
    EXPECT_EQ(large_tensors(options, io).tensors.size(), io.empty() ? 128U : 256U);
    EXPECT_EQ(written_tensors(options, io).tensors.size(), io.empty() ? 128U : 512U);
  }
}

}  // namespace
}  // namespace tzmark::bench
