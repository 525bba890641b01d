// See cluster/stragglers.h.
#include "cluster/stragglers.h"

#include <algorithm>
#include <cmath>

#include "harness/ranks.h"
#include "harness/statistics.h"

namespace tzmark::bench {
namespace {

double median_of_others(const std::vector<double>& lap, std::size_t worker) {
  std::vector<double> others = lap;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(worker));
  return median_interval(std::move(others)).median;
}

}  // namespace

std::size_t straggler_laps_min(std::size_t workers, const StragglerRule& rule) {
  // The smallest p of n signed ranks is 2 / 2^n.
  return static_cast<std::size_t>(std::ceil(1 + std::log2(static_cast<double>(workers) / rule.p_max)));
}

std::vector<Straggler> find_stragglers(const std::vector<std::vector<double>>& durations, const StragglerRule& rule) {
  std::vector<Straggler> found;
  const std::size_t workers = durations.empty() ? 0 : durations.front().size();
  if (workers < kStragglerWorkersMin || durations.size() < straggler_laps_min(workers, rule)) return found;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    std::vector<double> logs;
    for (const std::vector<double>& lap : durations) {
      logs.push_back(std::log(lap[worker] / median_of_others(lap, worker)));
    }
    const Shift shift = paired_shift(std::move(logs), rule.p_max / static_cast<double>(workers));
    const Straggler one{worker, std::exp(shift.estimate), shift.low ? std::exp(*shift.low) : 0,
                        std::min(1.0, shift.p * static_cast<double>(workers))};
    if (one.ratio >= rule.ratio_min && one.low > 1 && one.p <= rule.p_max) found.push_back(one);
  }
  return found;
}

double jain_index(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(values.size()) * squares);
}

}  // namespace tzmark::bench
