// Laps and their ratios; see confirmation.h.
#include "tune/confirmation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tzmark::bench {

void Confirming::ask(std::size_t setting, std::size_t against, Question question) {
  if (setting == against) return;
  comparisons_.push_back({setting, against, question, SequentialRatio()});
}

void Confirming::run() {
  const SearchOptions& options = sampler_.options();
  const SequentialRatio fresh(options.alpha / static_cast<double>(std::max<std::size_t>(1, comparisons_.size())));
  for (Comparison& comparison : comparisons_) comparison.ratio = fresh;
  std::size_t laps = 0;
  while (laps < options.laps_max) {
    std::vector<std::size_t> order = subjects();
    if (order.empty() || sampler_.affordable(1) < order.size()) break;
    std::ranges::shuffle(order, random_);
    const Lap lap = sampler_.lap(order, fmt::format("confirmation, lap {}", laps + 1));
    if (!lap.is_complete()) break;
    // A disturbed lap is repeated as a whole.
    if (lap.result == LapResult::kDisturbed) continue;
    conclude(lap);
    ++laps;
  }
  // What ends the laps early is the clock, the caller or a refusal, none of which depends on the ratios.
  for (Comparison& comparison : comparisons_) {
    if (!is_answered(comparison)) comparison.ratio.finish();
  }
  is_complete_ = subjects().empty() || laps >= options.laps_max;
}

bool Confirming::is_answered(const Comparison& comparison) const {
  const RatioInterval& ratio = comparison.ratio.interval();
  const double indifference = sampler_.options().indifference;
  if (comparison.question == Question::kFaster) return ratio.low > 1 || ratio.high <= 1 + indifference;
  return ratio.low >= 1 - indifference || ratio.high < 1;
}

// What is left to be compared, in a fixed order.
std::vector<std::size_t> Confirming::subjects() const {
  std::vector<std::size_t> open;
  for (const Comparison& comparison : comparisons_) {
    if (is_answered(comparison)) continue;
    for (const std::size_t subject : {comparison.setting, comparison.against}) {
      if (std::ranges::find(open, subject) == open.end()) open.push_back(subject);
    }
  }
  return open;
}

void Confirming::conclude(const Lap& lap) {
  for (const LapSample& sample : lap.samples) {
    sampler_.tuned(sample.source).confirmations.push_back(sampler_.latest(sample.source));
  }
  const auto log_of = [&](std::size_t setting) { return std::log(lap.of(setting).seconds_per_byte); };
  for (Comparison& comparison : comparisons_) {
    if (!is_answered(comparison)) comparison.ratio.add(log_of(comparison.against) - log_of(comparison.setting));
  }
}

std::optional<RatioInterval> Confirming::ratio(std::size_t setting, std::size_t against) const {
  const auto found = std::ranges::find_if(comparisons_, [&](const Comparison& comparison) {
    return comparison.setting == setting && comparison.against == against;
  });
  if (found == comparisons_.end()) return std::nullopt;
  return found->ratio.interval();
}

}  // namespace tzmark::bench
