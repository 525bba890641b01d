// Rounds of subjects that fail, lack something, or are interrupted.
#include "cli/rounds.h"

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tzmark::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StubSubject final : public Subject {
 public:
  explicit StubSubject(std::string name) {
    description_.detail = std::move(name);
    description_.bytes = 1;
  }

  void verify() override {
    if (at_verify) at_verify();
  }
  Sample run() override {
    if (at_run) at_run();
    Sample sample;
    sample.elapsed_ns = 1;
    return sample;
  }

  std::function<void()> at_verify, at_run;
};

class Rounds : public testing::Test {
 protected:
  StubSubject& add(const std::string& name) {
    auto subject = std::make_unique<StubSubject>(name);
    StubSubject& added = *subject;
    subjects_.push_back({std::move(subject), {}, {}});
    return added;
  }
  unsigned run(unsigned rounds) {
    return run_rounds(subjects_, {.rounds = rounds, .stop = [this] { return is_stopped_; }});
  }

  std::vector<Measured> subjects_;
  bool is_stopped_ = false;
};

TEST_F(Rounds, OneThatFailsOrLacksSomethingIsLeftOutAlone) {
  add("works");
  add("lacks").at_verify = [] { throw Error(ErrorCode::kUnavailable, "no device"); };
  add("fails").at_verify = [] { throw Error(ErrorCode::kReadFailed, "disk error"); };
  int runs = 0;
  add("fails later").at_run = [&] {
    if (++runs == 2) throw std::runtime_error("no file");
  };
  EXPECT_EQ(run(3), 3u);
  EXPECT_THAT(subjects_[0].samples, SizeIs(3));
  EXPECT_EQ(subjects_[0].why, "");
  for (std::size_t i = 1; i < subjects_.size(); ++i) {
    EXPECT_THAT(subjects_[i].samples, IsEmpty()) << i;
    EXPECT_EQ(subjects_[i].has_failed, i != 1) << i;
  }
  EXPECT_THAT(subjects_[1].why, HasSubstr("no device"));
  EXPECT_THAT(subjects_[2].why, HasSubstr("disk error"));
  EXPECT_EQ(subjects_[3].why, "no file");
  EXPECT_EQ(runs, 2);
}

// Such as a depth that was given and is the default of the path.
TEST_F(Rounds, SettingsThatAreTheSameAreMeasuredOnce) {
  add("one");
  add("two").description().detail = "one";
  EXPECT_EQ(run(3), 3u);
  EXPECT_THAT(subjects_[0].samples, SizeIs(3));
  EXPECT_THAT(subjects_[1].samples, IsEmpty());
  EXPECT_THAT(subjects_[1].why, HasSubstr("measured already"));
  EXPECT_FALSE(subjects_[1].has_failed);
}

TEST_F(Rounds, WrongBytesAreThrown) {
  add("works");
  add("wrong").at_verify = [] { throw Error(ErrorCode::kFileChanged, "other bytes"); };
  EXPECT_THROW(run(1), Error);
}

TEST_F(Rounds, AnInterruptionKeepsTheFinishedOnes) {
  int runs = 0;
  for (const char* name : {"a", "b", "c"}) {
    add(name).at_run = [&] { is_stopped_ = ++runs == 2 * 3 + 2; };
  }
  EXPECT_EQ(run(20), 2u);
  for (const Measured& measured : subjects_) {
    EXPECT_THAT(measured.samples, SizeIs(2));
    EXPECT_EQ(measured.why, "");
  }
}

TEST_F(Rounds, AnInterruptionInTheFirstOneKeepsItsSamples) {
  int runs = 0;
  for (const char* name : {"a", "b", "c"}) {
    add(name).at_run = [&] { is_stopped_ = ++runs == 2; };
  }
  EXPECT_EQ(run(20), 0u);
  std::size_t samples = 0;
  for (const Measured& measured : subjects_) {
    samples += measured.samples.size();
    EXPECT_EQ(measured.why.empty(), !measured.samples.empty());
    EXPECT_FALSE(measured.has_failed);
  }
  EXPECT_EQ(samples, 2u);
}

TEST_F(Rounds, AnInterruptionOfTheVerificationMeasuresNothing) {
  add("a").at_verify = [&] { is_stopped_ = true; };
  add("b").at_verify = [] { FAIL(); };
  EXPECT_EQ(run(20), 0u);
  for (const Measured& measured : subjects_) EXPECT_THAT(measured.why, HasSubstr("interrupted"));
}

}  // namespace
}  // namespace tzmark::bench
