// tzmark bench --profile: which settings it takes, and when a profile does not fit what is measured.
#include "cli/bench_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Profile three_tasks() {
  Profile profile;
  profile.load_warm = ProfileSettings{.io_path = "mmap", .threads = 1};
  profile.load_cold = ProfileSettings{.io_path = "uring-direct",
                                      .block_bytes = 1 << 20,
                                      .queue_depth = 32,
                                      .threads = 2,
                                      .pages = HostMemory::Pages::kSmall};
  profile.save = ProfileSettings{.io_path = "direct"};
  return profile;
}

BenchOptions measuring(const std::string& operation, const std::string& cache = "auto") {
  BenchOptions options;
  options.operations = {operation};
  options.cache = cache;
  return options;
}

bool none_given(std::string_view) { return false; }

std::string bench_refusal(const Profile& profile, BenchOptions options) {
  try {
    set_from_profile(profile, none_given, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "taken";
}

TEST(BenchProfile, SetsWhatIsNotGiven) {
  BenchOptions options = measuring("read", "cold");
  set_from_profile(three_tasks(), none_given, options);
  EXPECT_THAT(options.io, ElementsAre("uring-direct"));
  EXPECT_THAT(options.block_bytes, ElementsAre(1u << 20));
  EXPECT_THAT(options.queue_depths, ElementsAre(32u));
  EXPECT_THAT(options.threads, ElementsAre(2u));
  EXPECT_EQ(options.memory, "small-pages");
  BenchOptions given = measuring("read", "cold");
  given.queue_depths = {7};
  set_from_profile(
      three_tasks(), [](std::string_view option) { return option == "--depth"; }, given);
  EXPECT_THAT(given.queue_depths, ElementsAre(7u));
  EXPECT_THAT(given.io, ElementsAre("uring-direct"));
}

TEST(BenchProfile, TakesTheTaskThatIsMeasured) {
  BenchOptions warm = measuring("read", "warm");
  set_from_profile(three_tasks(), none_given, warm);
  EXPECT_THAT(warm.io, ElementsAre("mmap"));
  BenchOptions save = measuring("write");
  set_from_profile(three_tasks(), none_given, save);
  EXPECT_THAT(save.io, ElementsAre("direct"));
  // As for loads, the settings of one state stand in for the other.
  Profile only_cold;
  only_cold.load_cold = three_tasks().load_cold;
  BenchOptions other = measuring("read", "warm");
  set_from_profile(only_cold, none_given, other);
  EXPECT_THAT(other.io, ElementsAre("uring-direct"));
}

TEST(BenchProfile, LeavesThePathsForAuto) {
  Profile profile;
  profile.save = ProfileSettings{.io_path = "auto", .threads = 3};
  BenchOptions options = measuring("write");
  set_from_profile(profile, none_given, options);
  EXPECT_THAT(options.io, IsEmpty());
  EXPECT_THAT(options.threads, ElementsAre(3u));
}

TEST(BenchProfile, RefusesWhatDoesNotFitOneRun) {
  EXPECT_THAT(bench_refusal(three_tasks(), measuring("read")), HasSubstr("load-cold than for load-warm"));
  BenchOptions both = measuring("read", "warm");
  both.operations = {"read", "write"};
  EXPECT_THAT(bench_refusal(three_tasks(), both), HasSubstr("save than for load-warm: measure one, with --op"));
  Profile loads = three_tasks();
  loads.save.reset();
  EXPECT_THAT(bench_refusal(loads, measuring("write")), HasSubstr("no settings for save"));
  Profile saves;
  saves.save = ProfileSettings{.io_path = "direct"};
  EXPECT_THAT(bench_refusal(saves, measuring("read")), HasSubstr("no settings for load-warm"));
}

}  // namespace
}  // namespace tzmark::bench
