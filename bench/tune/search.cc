// Runs the search and the confirmation, and decides; see search.h.
#include "tune/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "harness/ranks.h"
#include "harness/statistics.h"
#include "tune/confirmation.h"
#include "tune/estimates.h"
#include "tune/halving.h"
#include "tune/sampler.h"
#include "tune/space.h"

namespace tzmark::bench {
namespace {

constexpr double kEnoughOfPeak = 0.95;
// Standard errors that tell two settings apart.
constexpr double kErrorsApart = 2;
// Memory within 2 % counts as equal: allocators round.
constexpr double kMemorySlack = 1.02;
// A gain that counts although it is not confirmed. On a busy machine, gains of some percent were none.
constexpr double kLikelyGain = 0.1;

std::optional<double> median_or_nothing(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  return median_interval(std::move(values)).median;
}

std::vector<double> logs_of_cpu(const TunedSetting& tuned) {
  std::vector<double> logs;
  for (const TuneSample& sample : tuned.samples) {
    if (sample.cpu_seconds_per_byte.value_or(0) > 0) logs.push_back(std::log(*sample.cpu_seconds_per_byte));
  }
  return logs;
}

// Whether noise does not tell that the values of b are above those of a.
bool may_be_equal(std::span<const double> a, std::span<const double> b, double alpha) {
  if (a.empty() || b.empty()) return true;
  const Shift shift = unpaired_shift(a, b, alpha);
  return !shift.low || *shift.low <= 0;
}

// One search. Settings are named by their index in the space, where the standard one is 0.
class Search {
 public:
  Search(Meter& meter, std::span<const Setting> settings, const SearchOptions& options, DisturbanceFilter& filter,
         SearchResult& result)
      : meter_(meter),
        options_(options),
        result_(result),
        random_(options.seed),
        space_(settings),
        estimates_(settings.size()),
        sampler_(meter, settings, options, filter, result),
        halving_(sampler_, space_, estimates_, random_) {
    result_.space_size = settings.size();
    result_.standard = sampler_.entry(kStandard);
  }

  void run() {
    try {
      halving_.run();
    } catch (...) {
      choose();
      throw;
    }
    choose();
    if (!best_ || sampler_.is_stopped()) return;
    least_in_flight_ = halving_.find_least_in_flight(-std::log(kEnoughOfPeak));
    result_.least_in_flight = sampler_.entry(*least_in_flight_);
    confirm();
  }

 private:
  static constexpr std::size_t kStandard = 0;

  bool has_standard() const { return !sampler_.has_failed(kStandard); }

  // Names the best, its ties and the cheapest of them, as far as the search got.
  void choose() {
    result_.last_rung_samples = halving_.last_rung_samples();
    if (halving_.finalists().empty()) return;
    best_ = halving_.finalists().front();
    result_.best = sampler_.entry(*best_);
    for (const std::size_t setting : halving_.finalists()) {
      if (is_tie(setting)) ties_.push_back(setting);
    }
    for (const std::size_t setting : ties_) sampler_.tuned(setting).is_tie = true;
  }

  // Half of what is indifferent: the best is itself only estimated.
  bool is_tie(std::size_t setting) const {
    if (setting == *best_) return true;
    return estimates_.behind(setting, *best_) <= options_.indifference / 2 &&
           may_be_equal(estimates_.logs(*best_), estimates_.logs(setting), options_.alpha);
  }

  // Narrows the ties down by CPU time, memory and bytes in flight; the fastest of those that are left.
  std::size_t cheapest_tie() {
    std::vector<std::size_t> left = ties_;
    keep_least_cpu(left);
    const auto memory = [&](std::size_t setting) {
      const TunedSetting& tuned = sampler_.tuned(setting);
      return static_cast<double>(tuned.peak_memory_bytes().value_or(tuned.setting.bytes_in_flight()));
    };
    const auto in_flight = [&](std::size_t setting) { return sampler_.setting(setting).bytes_in_flight(); };
    const double least_memory = memory(std::ranges::min(left, {}, memory));
    std::erase_if(left, [&](std::size_t setting) { return memory(setting) > least_memory * kMemorySlack; });
    const std::uint64_t least_bytes = in_flight(std::ranges::min(left, {}, in_flight));
    std::erase_if(left, [&](std::size_t setting) { return in_flight(setting) > least_bytes; });
    return left.front();
  }

  // Differences of CPU time within noise are ties, too.
  void keep_least_cpu(std::vector<std::size_t>& left) {
    const auto cpu = [&](std::size_t setting) {
      return sampler_.tuned(setting).cpu_seconds_per_byte().value_or(std::numeric_limits<double>::infinity());
    };
    const std::vector<double> least = logs_of_cpu(sampler_.tuned(std::ranges::min(left, {}, cpu)));
    std::erase_if(left, [&](std::size_t setting) {
      return !may_be_equal(least, logs_of_cpu(sampler_.tuned(setting)), options_.alpha);
    });
  }

  void confirm() {
    const std::size_t tie = cheapest_tie();
    Confirming confirming(sampler_, random_);
    confirming.ask(tie, *best_, Confirming::Question::kNoSlower);
    if (has_standard()) {
      confirming.ask(*best_, kStandard, Confirming::Question::kFaster);
      if (tie != *best_) confirming.ask(tie, kStandard, Confirming::Question::kFaster);
    }
    const auto record = [&] {
      for (const Confirming::Comparison& comparison : confirming.comparisons()) {
        result_.confirmation.push_back(
            {sampler_.entry(comparison.setting), sampler_.entry(comparison.against), comparison.ratio.interval()});
      }
    };
    try {
      meter_.renew();
      confirming.run();
    } catch (...) {
      record();
      throw;
    }
    record();
    recommend(confirming, tie);
    judge(confirming);
    result_.is_complete = !sampler_.is_stopped() && confirming.is_complete();
  }

  void recommend(const Confirming& confirming, std::size_t tie) {
    std::size_t chosen = *best_;
    result_.why = "it is the fastest, and no tie is cheaper";
    const auto against_best = confirming.ratio(tie, *best_);
    if (against_best && against_best->low >= 1 - options_.indifference) {
      chosen = tie;
      result_.why = fmt::format("it is the cheapest of {} settings that tie", ties_.size());
    } else if (against_best) {
      result_.why = "it is the fastest; the cheaper tie was not confirmed to be as fast";
    }
    chosen = faster_than_standard(confirming, chosen);
    result_.recommended = sampler_.entry(chosen);
    if (chosen == kStandard) {
      result_.standard_loses = LossInterval{};
    } else if (const auto ratio = confirming.ratio(chosen, kStandard); ratio && ratio->low > 0) {
      result_.standard_loses = {1 - 1 / ratio->estimate, 1 - 1 / ratio->low, 1 - 1 / ratio->high};
    }
  }

  // The chosen one or the best, if that is confirmed to be faster or at least likely to be so by much; else the
  // standard setting, which no user has to change for a gain that may be none.
  std::size_t faster_than_standard(const Confirming& confirming, std::size_t chosen) {
    if (!has_standard() || chosen == kStandard) return chosen;
    if (!sampler_.is_eligible(kStandard)) {
      result_.why += "; the standard setting exceeds the memory limit";
      return chosen;
    }
    const auto is_faster = [&](std::size_t setting) {
      const auto ratio = confirming.ratio(setting, kStandard);
      return ratio && ratio->low > 1;
    };
    if (is_faster(chosen)) return chosen;
    if (is_faster(*best_)) {
      result_.why = "it is the fastest; the cheaper tie was not confirmed to be faster than the standard setting";
      return *best_;
    }
    const auto is_likely = [&](std::size_t setting) {
      const auto ratio = confirming.ratio(setting, kStandard);
      return ratio && ratio->low > 0 && ratio->estimate > 1 + kLikelyGain;
    };
    for (const std::size_t setting : {chosen, *best_}) {
      if (!is_likely(setting) || !is_likely(*best_)) continue;
      result_.why = "it is likely to be faster than the standard setting, which the confirmation left undecided";
      return setting;
    }
    result_.why = "it is the standard setting, from which the best cannot be told apart";
    return kStandard;
  }

  // Whether every setting that does not tie is behind the best by more than noise, so that the best is more than the
  // luckiest.
  bool is_separated() {
    for (std::size_t setting = 0; setting < sampler_.size(); ++setting) {
      if (!sampler_.is_known(setting) || !sampler_.is_eligible(setting) || estimates_.count(setting) == 0) continue;
      if (!sampler_.tuned(setting).is_tie && !estimates_.is_behind(setting, *best_, 0, kErrorsApart)) return false;
    }
    return true;
  }

  void judge(const Confirming& confirming) {
    const bool several = ties_.size() > 1;
    const TuneVerdict differing = several          ? TuneVerdict::kTie
                                  : is_separated() ? TuneVerdict::kBest
                                                   : TuneVerdict::kUndecided;
    const bool differ = halving_.settings_differ();
    const auto ratio = confirming.ratio(*best_, kStandard);
    if (!ratio) {  // the best is the standard setting, or that failed
      result_.verdict = has_standard() && several && !differ ? TuneVerdict::kNothingMatters : differing;
    } else if (ratio->high <= 1 + options_.indifference) {
      result_.verdict = differ ? TuneVerdict::kTie : TuneVerdict::kNothingMatters;
      sampler_.tuned(kStandard).is_tie = true;
    } else if (ratio->low > 1) {
      result_.verdict = differing;
    }
  }

  Meter& meter_;
  const SearchOptions& options_;
  SearchResult& result_;
  std::mt19937_64 random_;
  Space space_;
  Estimates estimates_;
  Sampler sampler_;
  Halving halving_;
  std::optional<std::size_t> best_, least_in_flight_;
  std::vector<std::size_t> ties_;
};

}  // namespace

std::string_view verdict_name(TuneVerdict verdict) {
  switch (verdict) {
    case TuneVerdict::kBest:
      return "a setting is best";
    case TuneVerdict::kTie:
      return "settings tie";
    case TuneVerdict::kNothingMatters:
      return "nothing matters";
    case TuneVerdict::kUndecided:
      break;
  }
  return "undecided";
}

std::optional<double> TunedSetting::rate() const {
  std::vector<double> rates;
  for (const TuneSample& sample : samples) rates.push_back(1 / sample.seconds_per_byte);
  return median_or_nothing(std::move(rates));
}

std::optional<double> TunedSetting::cpu_seconds_per_byte() const {
  std::vector<double> values;
  for (const TuneSample& sample : samples) {
    if (sample.cpu_seconds_per_byte) values.push_back(*sample.cpu_seconds_per_byte);
  }
  return median_or_nothing(std::move(values));
}

std::optional<std::uint64_t> TunedSetting::peak_memory_bytes() const {
  std::vector<double> values;
  for (const TuneSample& sample : samples) {
    if (sample.peak_memory_bytes) values.push_back(static_cast<double>(*sample.peak_memory_bytes));
  }
  const auto median = median_or_nothing(std::move(values));
  if (!median) return std::nullopt;
  return static_cast<std::uint64_t>(*median);
}

void search_settings(Meter& meter, std::span<const Setting> settings, const SearchOptions& options,
                     DisturbanceFilter& filter, SearchResult& result) {
  Search(meter, settings, options, filter, result).run();
}

}  // namespace tzmark::bench
