// The search over fake storage: what it answers, what it does about refusals and failures, and how it ends. How often
// it is right under noise: bench/simulation/tuning.cc.
#include "tune/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tune/space.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kSearchMiB = std::uint64_t{1} << 20;
const Setting kStandard = {"pwrite", 2 * kSearchMiB, 2, 2, Pages::kHuge};

std::vector<Setting> small_space() {
  return settings_of({.paths = {{"pwrite", false}, {"uring", true}},
                      .cores = 2,
                      .align_bytes = 4096,
                      .memory_limit_bytes = 0,
                      .workload_bytes = 0,
                      .standard = kStandard});
}

// Storage whose rates the test chooses, in fake time.
class FakeStorage final : public Meter {
 public:
  std::function<double(const Setting&)> seconds_per_gb = [](const Setting&) { return 1.0; };
  std::function<double(const Setting&)> cpu_per_gb = [](const Setting&) { return 0.5; };
  std::function<void(const Setting&)> before = [](const Setting&) {};
  std::function<bool(std::size_t)> is_disturbed = [](std::size_t) { return false; };
  double noise = 0.01;
  std::vector<Setting> taken;
  std::vector<std::size_t> renewed_at;
  std::chrono::steady_clock::time_point now{};

  TuneSample sample(const Setting& setting) override {
    now += milliseconds(100);
    taken.push_back(setting);
    before(setting);
    TuneSample one;
    const bool disturbed = is_disturbed(taken.size());
    one.disturbance = {.elapsed_ns = 100'000'000, .steal_ns = disturbed ? 1U : 0U};
    const double factor = std::exp(noise * normal_(random_)) * (disturbed ? 3 : 1);
    one.seconds_per_byte = seconds_per_gb(setting) * factor / 1e9;
    one.cpu_seconds_per_byte = cpu_per_gb(setting) * std::exp(noise * normal_(random_)) / 1e9;
    one.peak_memory_bytes = setting.bytes_in_flight() + 50 * kSearchMiB;
    return one;
  }
  std::chrono::nanoseconds cost() const override { return milliseconds(100); }
  void renew() override { renewed_at.push_back(taken.size()); }

 private:
  std::mt19937_64 random_{7};
  std::normal_distribution<double> normal_;
};

SearchOptions options_for(const FakeStorage& storage) {
  SearchOptions options;
  options.budget = seconds(1000);
  options.now = [&storage] { return storage.now; };
  return options;
}

bool is_stolen(const Disturbance& disturbance) { return disturbance.steal_ns > 0; }

void search_it(FakeStorage& storage, const std::vector<Setting>& settings, const SearchOptions& options,
               SearchResult& result) {
  DisturbanceFilter filter(is_stolen);
  search_settings(storage, settings, options, filter, result);
}

SearchResult search_it(FakeStorage& storage, const SearchOptions& options) {
  SearchResult result;
  search_it(storage, small_space(), options, result);
  return result;
}

SearchResult search_it(FakeStorage& storage) { return search_it(storage, options_for(storage)); }

double doublings(double from, double to) { return std::log2(to / from); }

// One best setting: 1 MiB, depth 16, 4 threads on uring.
double hill(const Setting& setting) {
  const double block = doublings(static_cast<double>(kSearchMiB), static_cast<double>(setting.block_bytes));
  const double depth = doublings(16, setting.queue_depth);
  const double threads = doublings(4, setting.threads);
  const double falls = 0.05 * (block * block + depth * depth + threads * threads);
  return std::exp(std::min(falls, 2.0)) * (setting.io == "uring" ? 1 : 1.5) * (setting.pages == Pages::kHuge ? 1 : 1.1);
}

const Setting kTop = {"uring", kSearchMiB, 16, 4, Pages::kHuge};

TEST(TuneSearch, FindsTheBest) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  const SearchResult result = search_it(storage);
  ASSERT_TRUE(result.recommended);
  EXPECT_EQ(result.settings[*result.best].setting, kTop);
  EXPECT_EQ(result.settings[*result.recommended].setting, kTop);
  EXPECT_EQ(result.verdict, TuneVerdict::kBest);
  EXPECT_TRUE(result.is_complete);
  EXPECT_TRUE(result.settings[*result.best].is_tie);
  EXPECT_EQ(result.settings[result.standard].setting, kStandard);
  EXPECT_EQ(result.samples_taken, storage.taken.size());
  EXPECT_EQ(result.space_size, small_space().size());
  // Once, after the search and before the laps.
  ASSERT_EQ(storage.renewed_at.size(), 1u);
  const std::set<Setting> confirmed(storage.taken.begin() + static_cast<std::ptrdiff_t>(storage.renewed_at[0]),
                                    storage.taken.end());
  EXPECT_EQ(confirmed, (std::set<Setting>{kTop, kStandard}));
}

TEST(TuneSearch, SaysWhatTheStandardSettingLoses) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  const SearchResult result = search_it(storage);
  ASSERT_TRUE(result.standard_loses);
  const double loss = 1 - hill(kTop) / hill(kStandard);
  EXPECT_LE(result.standard_loses->low, loss);
  EXPECT_GE(result.standard_loses->high, loss);
  EXPECT_NEAR(result.standard_loses->estimate, loss, 0.02);
  ASSERT_EQ(result.confirmation.size(), 1u);
  EXPECT_EQ(result.confirmation[0].setting, *result.best);
  EXPECT_EQ(result.confirmation[0].against, result.standard);
  EXPECT_NEAR(result.confirmation[0].ratio.estimate, hill(kStandard) / hill(kTop), 0.05);
}

TEST(TuneSearch, IsDeterminedByItsSeed) {
  FakeStorage a;
  FakeStorage b;
  FakeStorage c;
  for (FakeStorage* storage : {&a, &b, &c}) storage->seconds_per_gb = hill;
  search_it(a);
  search_it(b);
  SearchOptions other = options_for(c);
  other.seed = 2;
  search_it(c, other);
  EXPECT_EQ(a.taken, b.taken);
  EXPECT_NE(a.taken, c.taken);
}

// Settings take turns: the samples of one are never all taken before those of the next.
TEST(TuneSearch, InterleavesTheSettings) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  search_it(storage);
  std::size_t repeated = 0;
  for (std::size_t i = 10; i < storage.renewed_at[0]; ++i) repeated += storage.taken[i] == storage.taken[i - 1] ? 1 : 0;
  EXPECT_LT(repeated, storage.renewed_at[0] / 20);
}

TEST(TuneSearch, RecommendsTheCheapestTie) {
  FakeStorage storage;
  // All of uring are equally fast; one thread takes the least time, and the smallest depth the least memory.
  storage.seconds_per_gb = [](const Setting& setting) { return setting.io == "uring" ? 1.0 : 1.5; };
  storage.cpu_per_gb = [](const Setting& setting) { return 0.2 * setting.threads; };
  const SearchResult result = search_it(storage);
  ASSERT_TRUE(result.recommended);
  EXPECT_EQ(result.verdict, TuneVerdict::kTie);
  const TunedSetting& recommended = result.settings[*result.recommended];
  EXPECT_EQ(recommended.setting.threads, 1u);
  for (const TunedSetting& tuned : result.settings) {
    if (!tuned.is_tie || tuned.setting.threads > 1) continue;
    EXPECT_LE(recommended.setting.bytes_in_flight(), tuned.setting.bytes_in_flight());
  }
}

TEST(TuneSearch, RecommendsTheStandardSettingIfNothingMatters) {
  FakeStorage storage;
  const SearchResult result = search_it(storage);
  EXPECT_EQ(result.verdict, TuneVerdict::kNothingMatters);
  EXPECT_EQ(result.recommended, result.standard);
  EXPECT_NE(result.why.find("standard setting"), std::string::npos);
  ASSERT_TRUE(result.standard_loses);
  EXPECT_EQ(result.standard_loses->high, 0);
}

TEST(TuneSearch, RecommendsTheStandardSettingIfItIsTheBest) {
  FakeStorage storage;
  storage.seconds_per_gb = [](const Setting& setting) { return setting == kStandard ? 1.0 : 1.3; };
  const SearchResult result = search_it(storage);
  EXPECT_EQ(result.best, result.standard);
  EXPECT_EQ(result.recommended, result.standard);
  EXPECT_EQ(result.verdict, TuneVerdict::kBest);
}

TEST(TuneSearch, NoSettingIsBestThatNoiseDoesNotTellFromTheOthers) {
  FakeStorage storage;
  // Slightly better than the rest, by less than a few noisy samples can show.
  storage.seconds_per_gb = [](const Setting& setting) { return setting == kStandard ? 1.0 : 1.04; };
  storage.noise = 0.3;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SearchOptions options = options_for(storage);
    options.budget = seconds(10);
    options.seed = seed;
    EXPECT_NE(search_it(storage, options).verdict, TuneVerdict::kBest) << seed;
  }
}

TEST(TuneSearch, FindsTheLeastBytesInFlight) {
  FakeStorage storage;
  // Saturates: 95 % of the peak at 4 MiB, 90 % at 2 MiB.
  storage.seconds_per_gb = [](const Setting& setting) {
    const double in_flight = static_cast<double>(setting.bytes_in_flight()) / static_cast<double>(kSearchMiB);
    return (1 + 0.2 / in_flight) * (setting.io == "uring" ? 1 : 1.2);
  };
  const SearchResult result = search_it(storage);
  ASSERT_TRUE(result.least_in_flight);
  const Setting& least = result.settings[*result.least_in_flight].setting;
  EXPECT_EQ(least.io, "uring");
  EXPECT_GE(least.bytes_in_flight(), 2 * kSearchMiB);
  EXPECT_LE(least.bytes_in_flight(), 4 * kSearchMiB);
}

TEST(TuneSearch, DropsWhatTheMachineRefuses) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  storage.before = [](const Setting& setting) {
    if (setting.io == "uring") throw Error(ErrorCode::kUnavailable, "no rings here");
  };
  const SearchResult result = search_it(storage);
  ASSERT_TRUE(result.recommended);
  EXPECT_EQ(result.settings[*result.recommended].setting.io, "pwrite");
  std::multiset<Setting> asked(storage.taken.begin(), storage.taken.end());
  std::size_t refused = 0;
  for (const TunedSetting& tuned : result.settings) {
    if (tuned.failed.empty()) continue;
    ++refused;
    EXPECT_EQ(tuned.failed, "no rings here");
    EXPECT_TRUE(tuned.samples.empty());
    EXPECT_EQ(asked.count(tuned.setting), 1u);
  }
  EXPECT_GT(refused, 0u);
}

TEST(TuneSearch, RecommendsTheBestIfTheStandardSettingIsRefused) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  storage.before = [](const Setting& setting) {
    if (setting == kStandard) throw Error(ErrorCode::kUnavailable, "not this one");
  };
  const SearchResult result = search_it(storage);
  ASSERT_TRUE(result.recommended);
  EXPECT_EQ(result.settings[*result.recommended].setting, kTop);
  EXPECT_FALSE(result.standard_loses);
  EXPECT_TRUE(result.confirmation.empty());
}

TEST(TuneSearch, AnswersNothingIfEverySettingIsRefused) {
  FakeStorage storage;
  storage.before = [](const Setting&) { throw Error(ErrorCode::kUnavailable, "no"); };
  const SearchResult result = search_it(storage);
  EXPECT_EQ(result.verdict, TuneVerdict::kUndecided);
  EXPECT_FALSE(result.best);
  EXPECT_FALSE(result.recommended);
  EXPECT_FALSE(result.is_complete);
}

TEST(TuneSearch, KeepsTheResultsIfTheStorageFails) {
  for (const std::size_t full_at : {std::size_t{300}, std::size_t{2'000}}) {
    FakeStorage storage;
    storage.before = [&](const Setting&) {
      if (storage.taken.size() == full_at) throw Error(ErrorCode::kWriteFailed, "disk full");
    };
    SearchResult result;
    try {
      search_it(storage, small_space(), options_for(storage), result);
      FAIL() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kWriteFailed);
    }
    EXPECT_EQ(result.samples_taken, full_at);
    EXPECT_FALSE(result.is_complete);
    // The first rung takes more than 300 samples.
    EXPECT_EQ(result.best.has_value(), full_at == 2'000);
    EXPECT_GT(result.settings.size(), 10u);
  }
}

TEST(TuneSearch, StopsAndKeepsWhatWasMeasured) {
  for (const std::size_t stopped_at : {std::size_t{0}, std::size_t{1}, std::size_t{40}, std::size_t{400}}) {
    FakeStorage storage;
    storage.seconds_per_gb = hill;
    SearchOptions options = options_for(storage);
    options.stop = [&] { return storage.taken.size() >= stopped_at; };
    const SearchResult result = search_it(storage, options);
    EXPECT_EQ(storage.taken.size(), stopped_at);
    EXPECT_FALSE(result.is_complete);
    EXPECT_EQ(result.verdict, TuneVerdict::kUndecided);
    std::size_t kept = 0;
    for (const TunedSetting& tuned : result.settings) kept += tuned.samples.size();
    EXPECT_EQ(kept, stopped_at);
  }
}

TEST(TuneSearch, StopsInTheConfirmation) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  SearchOptions options = options_for(storage);
  options.stop = [&] { return !storage.renewed_at.empty() && storage.taken.size() >= storage.renewed_at[0] + 6; };
  const SearchResult result = search_it(storage, options);
  EXPECT_FALSE(result.is_complete);
  EXPECT_TRUE(result.best);
  EXPECT_EQ(result.verdict, TuneVerdict::kUndecided);
  // Too few laps to tell anything from the standard setting.
  EXPECT_EQ(result.recommended, result.standard);
}

// Three laps of four say by a quarter, and the fourth the reverse.
TEST(TuneSearch, RecommendsWhatIsLikelyToBeFasterIfTheTimeEndsUndecided) {
  FakeStorage storage;
  std::size_t laps = 0;
  storage.seconds_per_gb = [&](const Setting& setting) {
    if (storage.renewed_at.empty() || setting != kStandard) return hill(setting);
    return hill(kTop) * (laps++ % 4 == 3 ? 0.7 : 1.25);
  };
  SearchOptions options = options_for(storage);
  options.stop = [&] { return !storage.renewed_at.empty() && storage.taken.size() >= storage.renewed_at[0] + 48; };
  const SearchResult result = search_it(storage, options);
  ASSERT_EQ(result.confirmation.size(), 1u);
  EXPECT_LE(result.confirmation[0].ratio.low, 1);
  EXPECT_NEAR(result.confirmation[0].ratio.estimate, 1.25, 0.05);
  EXPECT_EQ(result.verdict, TuneVerdict::kUndecided);
  EXPECT_EQ(result.settings[*result.recommended].setting, kTop);
  EXPECT_LE(result.standard_loses->low, 0);
}

TEST(TuneSearch, KeepsToTheBudget) {
  for (const int budget_s : {1, 5, 20, 60}) {
    FakeStorage storage;
    storage.seconds_per_gb = hill;
    SearchOptions options = options_for(storage);
    options.budget = seconds(budget_s);
    const SearchResult result = search_it(storage, options);
    EXPECT_LE(storage.now.time_since_epoch(), seconds(budget_s) + milliseconds(100)) << budget_s;
    EXPECT_GE(storage.taken.size(), static_cast<std::size_t>(budget_s)) << budget_s;
    EXPECT_TRUE(budget_s < 20 || result.verdict == TuneVerdict::kBest) << budget_s;
  }
}

// Most of the budget of a small machine goes where it matters.
TEST(TuneSearch, ImprovesWithinAShortBudget) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  SearchOptions options = options_for(storage);
  options.budget = seconds(30);
  const SearchResult result = search_it(storage, options);
  ASSERT_TRUE(result.recommended);
  EXPECT_LE(hill(result.settings[*result.recommended].setting), 1.1 * hill(kTop));
}

TEST(TuneSearch, ReportsItsProgress) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  SearchOptions options = options_for(storage);
  std::vector<SearchProgress> seen;
  options.progress = [&](const SearchProgress& progress) { seen.push_back(progress); };
  search_it(storage, options);
  ASSERT_EQ(seen.size(), storage.taken.size());
  EXPECT_EQ(seen.front().left, seconds(1000));
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GE(seen[i].done, seen[i - 1].done);
    EXPECT_LE(seen[i].left, seen[i - 1].left);
    EXPECT_EQ(seen[i].samples, i);
  }
  EXPECT_NE(seen.back().what.find("confirmation, lap"), std::string::npos);
  ASSERT_TRUE(seen.back().best_rate);
  EXPECT_NEAR(*seen.back().best_rate, 1e9 / hill(kTop), 0.05e9);
}

TEST(TuneSearch, DoesNotCountDisturbedSamples) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  storage.is_disturbed = [](std::size_t sample) { return sample % 25 == 0; };
  const SearchResult result = search_it(storage);
  EXPECT_FALSE(result.was_busy);
  EXPECT_EQ(result.settings[*result.recommended].setting, kTop);
  std::size_t disturbed = 0;
  for (const TunedSetting& tuned : result.settings) {
    disturbed += tuned.disturbed_samples;
    EXPECT_TRUE(std::ranges::none_of(tuned.samples, is_stolen, &TuneSample::disturbance));
    EXPECT_TRUE(std::ranges::none_of(tuned.confirmations, is_stolen, &TuneSample::disturbance));
  }
  EXPECT_GT(disturbed, 0u);
}

TEST(TuneSearch, CountsThemOnAMachineThatIsAlwaysBusy) {
  FakeStorage storage;
  storage.seconds_per_gb = hill;
  storage.is_disturbed = [](std::size_t) { return true; };
  const SearchResult result = search_it(storage);
  EXPECT_TRUE(result.was_busy);
  ASSERT_TRUE(result.recommended);
  EXPECT_EQ(result.settings[*result.recommended].setting, kTop);
}

TEST(TuneSearch, OnlyComparesWithAStandardSettingAboveTheMemoryLimit) {
  FakeStorage storage;
  storage.seconds_per_gb = [](const Setting& setting) { return setting == kStandard ? 0.5 : 1.0; };
  SearchOptions options = options_for(storage);
  options.memory_limit_bytes = kSearchMiB;
  SearchResult result;
  std::vector<Setting> settings = small_space();
  std::erase_if(settings,
                [](const Setting& setting) { return setting != kStandard && setting.bytes_in_flight() > kSearchMiB; });
  search_it(storage, settings, options, result);
  ASSERT_TRUE(result.recommended);
  EXPECT_NE(result.recommended, result.standard);
  EXPECT_NE(result.why.find("memory limit"), std::string::npos);
  ASSERT_TRUE(result.standard_loses);
  EXPECT_LT(result.standard_loses->high, 0);
}

TEST(TuneSearch, TriesASpaceOfOneSetting) {
  FakeStorage storage;
  SearchResult result;
  search_it(storage, std::vector<Setting>{kStandard}, options_for(storage), result);
  EXPECT_EQ(result.best, result.standard);
  EXPECT_EQ(result.recommended, result.standard);
  EXPECT_TRUE(result.is_complete);
}

TEST(TuneSearch, MediansOfASettingAreAbsentWithoutSamples) {
  TunedSetting tuned;
  EXPECT_FALSE(tuned.rate());
  EXPECT_FALSE(tuned.cpu_seconds_per_byte());
  EXPECT_FALSE(tuned.peak_memory_bytes());
  tuned.samples = {{.seconds_per_byte = 1e-9}, {.seconds_per_byte = 2e-9, .cpu_seconds_per_byte = 3e-9}};
  tuned.samples.push_back({.seconds_per_byte = 4e-9, .peak_memory_bytes = 77});
  EXPECT_NEAR(*tuned.rate(), 0.5e9, 1);
  EXPECT_EQ(tuned.cpu_seconds_per_byte(), 3e-9);
  EXPECT_EQ(tuned.peak_memory_bytes(), 77u);
}

TEST(TuneVerdict, HasItsNames) {
  EXPECT_EQ(verdict_name(TuneVerdict::kUndecided), "undecided");
  EXPECT_EQ(verdict_name(TuneVerdict::kBest), "a setting is best");
  EXPECT_EQ(verdict_name(TuneVerdict::kTie), "settings tie");
  EXPECT_EQ(verdict_name(TuneVerdict::kNothingMatters), "nothing matters");
}

}  // namespace
}  // namespace tzmark::bench
