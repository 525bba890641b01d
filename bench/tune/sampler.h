// Takes the samples of a search: keeps them, the budget, and what a setting cannot do.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tune/search.h"

namespace tzmark::bench {

// Settings are named by their index in the space. For one thread at a time. Keeps references to all arguments.
class Sampler {
 public:
  Sampler(Meter& meter, std::span<const Setting> settings, const SearchOptions& options, SearchResult& result);

  // Measures the setting once. Returns nothing if it has failed, now or before, or if the search is over. `what`: for
  // the progress. Does not keep the sample.
  std::optional<TuneSample> take(std::size_t setting, const std::string& what);
  // Whether a sample, or a lap, in which one of its samples was disturbed, counts. On a machine that is always busy all
  // of them do, because otherwise nothing would. Looks at nothing that was measured, so that it prefers no result.
  bool counts(bool disturbed);

  // The part of the budget that is spent: of the time, or of the samples that a search may take in all.
  double spent() const;
  // Estimates how many samples fit between now and when this part of the budget is spent.
  std::size_t affordable(double part) const;
  // Whether the budget is spent or the search was stopped.
  bool over() const { return is_stopped_ || spent() >= 1; }
  bool is_stopped() const { return is_stopped_; }

  // Returns the entry of a setting in the result, which it creates.
  std::size_t entry(std::size_t setting);
  TunedSetting& tuned(std::size_t setting) { return result_.settings[entry(setting)]; }
  bool is_known(std::size_t setting) const { return entries_[setting] != kNone; }
  bool has_failed(std::size_t setting) const {
    return is_known(setting) && !result_.settings[entries_[setting]].failed.empty();
  }
  // Whether a search may end at this setting: it has not failed, and does not exceed the memory limit.
  bool is_eligible(std::size_t setting) const;
  // For the progress.
  void set_best_rate(std::optional<double> rate) { best_rate_ = rate; }
  const SearchOptions& options() const { return options_; }
  const Setting& setting(std::size_t i) const { return settings_[i]; }
  std::size_t size() const { return settings_.size(); }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  void report(const std::string& what) const;
  std::chrono::nanoseconds elapsed() const { return options_.now() - begin_; }

  Meter& meter_;
  const std::span<const Setting> settings_;
  const SearchOptions& options_;
  SearchResult& result_;
  const std::chrono::steady_clock::time_point begin_;
  const double samples_max_;
  std::vector<std::size_t> entries_;  // by setting
  std::deque<bool> recent_;           // whether they were disturbed
  std::optional<double> best_rate_;
  bool is_stopped_ = false;
};

}  // namespace tzmark::bench
