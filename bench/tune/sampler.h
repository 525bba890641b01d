// Takes the samples of a search: keeps them, the budget, and what a setting cannot do.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/engine.h"
#include "tune/search.h"

namespace tzmark::bench {

// Settings are named by their index in the space. For one thread at a time. Keeps references to all arguments.
class Sampler final : private Source {
 public:
  Sampler(Meter& meter, std::span<const Setting> settings, const SearchOptions& options, DisturbanceFilter& filter,
          SearchResult& result);

  // Measures each setting once, as one lap, which is not complete if one fails or the search is over. `what`: for the
  // progress. Does not keep the samples.
  Lap lap(const std::vector<std::size_t>& order, const std::string& what);
  // The latest sample of a setting. REQUIRES: it has one.
  const TuneSample& latest(std::size_t setting) const { return latest_[setting]; }

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

  SourceSample take(std::size_t setting) override;
  // A setting that this machine refuses has failed; every other failure ends the search.
  void leave_out(std::size_t setting, const SourceFailure& failure) override;
  bool is_over_now();
  void report() const;
  std::chrono::nanoseconds elapsed() const { return options_.now() - begin_; }

  Meter& meter_;
  const std::span<const Setting> settings_;
  const SearchOptions& options_;
  const DisturbanceFilter& filter_;
  SearchResult& result_;
  const std::chrono::steady_clock::time_point begin_;
  const double samples_max_;
  std::vector<std::size_t> entries_;  // by setting
  std::vector<TuneSample> latest_;    // by setting
  std::string what_;                  // for the progress
  std::optional<double> best_rate_;
  bool is_stopped_ = false;
  Engine engine_;
};

}  // namespace tzmark::bench
