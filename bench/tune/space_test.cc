// The list of settings, without repetitions, and what is next to what.
#include "tune/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kSpaceMiB = std::uint64_t{1} << 20;

SpaceOptions two_paths() {
  return {.paths = {{"pwrite", false}, {"uring", true}},
          .cores = 2,
          .align_bytes = 4096,
          .memory_limit_bytes = 0,
          .workload_bytes = 0,
          .standard = {"pwrite", 2 * kSpaceMiB, 2, 2, Pages::kHuge}};
}

std::size_t count_of(const std::vector<Setting>& settings, std::string_view io) {
  return static_cast<std::size_t>(std::ranges::count(settings, io, &Setting::io));
}

TEST(TuneSpace, ListsEverySettingOnce) {
  const std::vector<Setting> settings = settings_of(two_paths());
  EXPECT_EQ(settings.front(), two_paths().standard);
  EXPECT_EQ(std::set<Setting>(settings.begin(), settings.end()).size(), settings.size());
  // 9 block sizes and 2 kinds of pages; 8 depths, each with one number of threads.
  EXPECT_EQ(count_of(settings, "pwrite"), 9u * 2 * 8);
  // One thread has 8 depths, two have 7, four have 6: a depth below the threads would repeat one.
  EXPECT_EQ(count_of(settings, "uring"), 9u * 2 * (8 + 7 + 6));
}

TEST(TuneSpace, HasNoDepthThatOnlyRepeatsAnother) {
  for (const Setting& setting : settings_of(two_paths())) {
    EXPECT_LE(setting.threads, setting.queue_depth) << label_of(setting);
    EXPECT_LE(setting.threads, 4u);
    const unsigned threads = setting.io == "pwrite" ? std::min(setting.queue_depth, 2u) : setting.threads;
    EXPECT_EQ(setting.threads, threads) << label_of(setting);
  }
}

TEST(TuneSpace, ListsTheCoresAsThreadsIfTheyAreNoPowerOfTwo) {
  SpaceOptions options = two_paths();
  options.cores = 6;
  options.standard = {"uring", kSpaceMiB, 16, 6, Pages::kHuge};
  const std::vector<Setting> settings = settings_of(options);
  EXPECT_EQ(std::ranges::count(settings, options.standard), 1);
  EXPECT_NE(std::ranges::find(settings, Setting{"uring", 4 * kSpaceMiB, 32, 6, Pages::kSmall}), settings.end());
}

TEST(TuneSpace, KeepsToTheMemoryLimitExceptForTheStandardSetting) {
  SpaceOptions options = two_paths();
  options.memory_limit_bytes = kSpaceMiB;
  const std::vector<Setting> settings = settings_of(options);
  EXPECT_EQ(settings.front(), options.standard);
  EXPECT_GT(settings.size(), 10u);
  for (const Setting& setting : settings) {
    EXPECT_TRUE(setting.bytes_in_flight() <= kSpaceMiB || setting == options.standard) << label_of(setting);
  }
  EXPECT_NE(std::ranges::find(settings, kSpaceMiB, &Setting::bytes_in_flight), settings.end());
}

TEST(TuneSpace, KeepsToTheAlignment) {
  SpaceOptions options = two_paths();
  options.align_bytes = 256 << 10;
  for (const Setting& setting : settings_of(options)) EXPECT_EQ(setting.block_bytes % (256 << 10), 0u);
}

TEST(TuneSpace, HasNoDepthBeyondTheWorkload) {
  SpaceOptions options = two_paths();
  options.workload_bytes = 8 * kSpaceMiB;
  const std::vector<Setting> settings = settings_of(options);
  // Eight transfers of a mebibyte are all there are.
  EXPECT_NE(std::ranges::find(settings, Setting{"uring", kSpaceMiB, 8, 1, Pages::kHuge}), settings.end());
  EXPECT_EQ(std::ranges::find(settings, Setting{"uring", kSpaceMiB, 16, 1, Pages::kHuge}), settings.end());
}

TEST(TuneSpace, NeighborsDifferInAtMostTwoNumbers) {
  const std::vector<Setting> settings = settings_of(two_paths());
  const Space space(settings);
  EXPECT_EQ(space.path_count(), 2u);
  const auto at = [&](const Setting& setting) {
    return static_cast<std::size_t>(std::ranges::find(settings, setting) - settings.begin());
  };
  const std::size_t here = at({"uring", kSpaceMiB, 16, 2, Pages::kHuge});
  const std::vector<std::size_t> found = space.neighbors(here);
  const auto is_neighbor = [&](const Setting& setting) { return std::ranges::find(found, at(setting)) != found.end(); };
  EXPECT_TRUE(is_neighbor({"uring", 2 * kSpaceMiB, 16, 2, Pages::kHuge}));
  EXPECT_TRUE(is_neighbor({"uring", 2 * kSpaceMiB, 8, 2, Pages::kHuge}));
  EXPECT_TRUE(is_neighbor({"uring", kSpaceMiB, 16, 2, Pages::kSmall}));
  EXPECT_FALSE(is_neighbor({"uring", 4 * kSpaceMiB, 16, 2, Pages::kHuge}));
  EXPECT_FALSE(is_neighbor({"uring", 2 * kSpaceMiB, 8, 1, Pages::kHuge}));
  EXPECT_FALSE(is_neighbor({"pwrite", kSpaceMiB, 16, 2, Pages::kHuge}));
  EXPECT_EQ(std::ranges::count(found, here), 0);
  for (const std::size_t other : found) {
    const std::vector<std::size_t> back = space.neighbors(other);
    EXPECT_EQ(std::ranges::count(back, here), 1) << label_of(settings[other]);
  }
}

TEST(TuneSpace, EverySettingHasNeighbors) {
  SpaceOptions options = two_paths();
  options.cores = 6;
  options.standard = {"uring", 3 * kSpaceMiB, 24, 6, Pages::kHuge};
  const std::vector<Setting> settings = settings_of(options);
  const Space space(settings);
  for (std::size_t i = 0; i < settings.size(); ++i) EXPECT_FALSE(space.neighbors(i).empty()) << label_of(settings[i]);
}

TEST(TuneSpace, SpreadsOverThePath) {
  const std::vector<Setting> settings = settings_of(two_paths());
  const Space space(settings);
  std::mt19937_64 random(3);
  const std::size_t path = space.path_of(settings.size() - 1);
  const std::vector<std::size_t> chosen = space.spread(path, 12, random);
  EXPECT_EQ(std::set<std::size_t>(chosen.begin(), chosen.end()).size(), 12u);
  std::uint64_t least_bytes = ~std::uint64_t{0};
  std::uint64_t most_bytes = 0;
  for (const std::size_t setting : chosen) {
    EXPECT_EQ(settings[setting].io, "uring");
    least_bytes = std::min(least_bytes, settings[setting].block_bytes);
    most_bytes = std::max(most_bytes, settings[setting].block_bytes);
  }
  EXPECT_EQ(least_bytes, 64u << 10);
  EXPECT_EQ(most_bytes, 16 * kSpaceMiB);
  EXPECT_EQ(space.spread(path, 100'000, random).size(), space.settings_of_path(path).size());
}

TEST(TuneSetting, HasALabel) {
  EXPECT_EQ(label_of({"uring-direct", kSpaceMiB, 16, 2, Pages::kHuge}),
            "uring-direct, 1 MiB, depth 16, 2 threads, huge pages");
  EXPECT_EQ(label_of({"mmap", 65536, 1, 1, Pages::kSmall}), "mmap, 64 KiB, depth 1, 1 thread, small pages");
}

}  // namespace
}  // namespace tzmark::bench
