// Searches the settings of a storage for the fastest ones, then for the cheapest of these.
//
// Successive halving: a few settings of every path, spread out, are sampled briefly; the neighbors of the best join
// them; the better half is sampled twice as long, and so on until noise separates the rest from the best or the
// budget is spent. Samples come in rounds, each setting once in random order, so that drift of the machine meets all
// of them. Settings are compared by ranks, because timings have heavy tails. Then, on new files, laps confirm the best,
// the cheapest tie and the standard setting with an interval that may be looked at meanwhile (harness/sequential.h).
//
// The rate of a setting is 1 / seconds_per_byte. Ratios are of rates.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/sequential.h"
#include "measure/disturbance_filter.h"
#include "tune/meter.h"
#include "tune/setting.h"

namespace tzmark::bench {

enum class TuneVerdict {
  kUndecided,       // the budget did not suffice, or the search was stopped
  kBest,            // one setting is faster than all others that were found
  kTie,             // several cannot be told apart, and they are faster than the standard setting
  kNothingMatters,  // no setting that was found is faster than the standard one by more than the indifference
};

// "undecided", "a setting is best", "settings tie", "nothing matters"
std::string_view verdict_name(TuneVerdict verdict);

struct TunedSetting {
  Setting setting = {};
  std::vector<TuneSample> samples = {};  // of the search, in the order of time, that count
  std::size_t disturbed_samples = 0;
  unsigned rounds_survived = 0;                // halvings
  bool is_tie = false;                         // with the best, or the best itself
  std::string failed = {};                     // not empty: why it could not be measured
  std::vector<TuneSample> confirmations = {};  // on new files, without those of disturbed laps

  // Medians of the search's samples; nothing without samples that have it.
  std::optional<double> rate() const;  // bytes/s
  std::optional<double> cpu_seconds_per_byte() const;
  std::optional<std::uint64_t> peak_memory_bytes() const;
};

// Ratio of the rate of one setting to that of another; indices into SearchResult::settings.
struct Confirmation {
  std::size_t setting = 0, against = 0;
  RatioInterval ratio = {};  // high is infinite, and low 0, with too few laps
};

struct LossInterval {
  double estimate = 0, low = 0, high = 0;
};

// What is known so far, at any time of the search.
struct SearchResult {
  // Those of the space that were sampled or failed; the standard setting is the first.
  std::vector<TunedSetting> settings;
  std::size_t standard = 0;
  // Nothing while unknown.
  std::optional<std::size_t> best;
  // The one with the least CPU seconds per byte among the ties, then with the least memory; the standard setting unless
  // the confirmation shows that it is slower, or that it is likely to be.
  std::optional<std::size_t> recommended;
  // The one with the least bytes in flight of those that reach 95 % of the best rate.
  std::optional<std::size_t> least_in_flight;
  TuneVerdict verdict = TuneVerdict::kUndecided;
  std::string why = {};  // in a sentence, why this one is recommended
  std::vector<Confirmation> confirmation;
  // 1 - rate of the standard setting / rate of the recommended one; nothing before the confirmation has an interval, 0
  // if they are the same.
  std::optional<LossInterval> standard_loses;
  bool is_complete = false;  // not stopped, and the budget sufficed for intervals
  bool was_busy = false;     // most samples were disturbed: they had to count from there on

  std::size_t space_size = 0;         // settings that could be chosen
  std::size_t samples_taken = 0;      // disturbed ones and those of the confirmation included
  std::size_t last_rung_samples = 0;  // of each setting that reached the last rung
};

struct SearchProgress {
  std::string what;                      // "search, rung 3: 12 settings" or "confirmation, lap 14"
  std::size_t settings = 0;              // sampled so far
  std::size_t samples = 0;               // taken so far
  double done = 0;                       // part of the budget that is spent, 0 to 1
  std::chrono::nanoseconds left{};       // at most
  std::optional<double> best_rate = {};  // bytes/s, of the leading setting
};

struct SearchOptions {
  std::chrono::nanoseconds budget = std::chrono::minutes(2);
  std::uint64_t seed = 1;
  double alpha = 0.05;                   // divided among the comparisons of the confirmation
  double indifference = kIndifference;   // smaller differences of rates do not matter
  std::uint64_t memory_limit_bytes = 0;  // the standard setting is only compared with if it is above it; 0: no limit
  std::size_t rung_samples_max = 128;    // of a setting in the search
  std::size_t laps_max = 1'200;          // of the confirmation
  std::function<void(const SearchProgress&)> progress = {};  // before every sample; may be empty
  std::function<bool()> stop = {};                           // asked before every sample; may be empty
  std::function<std::chrono::steady_clock::time_point()> now = [] { return std::chrono::steady_clock::now(); };
};

// Fills in the result while it goes on, so that it holds what was measured also when this throws. A setting for which
// the meter throws kUnavailable has failed and is dropped; everything else that the meter throws ends the search.
// settings: as settings_of returns them, the standard one first. filter: of the whole run. REQUIRES: not empty, no
// duplicates.
void search_settings(Meter& meter, std::span<const Setting> settings, const SearchOptions& options,
                     DisturbanceFilter& filter, SearchResult& result);

}  // namespace tzmark::bench
