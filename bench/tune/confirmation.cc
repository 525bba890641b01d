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
  while (!subjects().empty() && laps < options.laps_max && lap(laps + 1)) ++laps;
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

// Returns false if there was no time for another lap.
bool Confirming::lap(std::size_t number) {
  const std::vector<std::size_t> open = subjects();
  while (sampler_.affordable(1) >= open.size()) {
    std::vector<std::size_t> order = open;
    std::ranges::shuffle(order, random_);
    std::map<std::size_t, double> logs;
    std::vector<std::pair<std::size_t, TuneSample>> taken;
    bool is_disturbed = false;
    for (const std::size_t subject : order) {
      const auto sample = sampler_.take(subject, fmt::format("confirmation, lap {}", number));
      if (!sample) return false;
      logs[subject] = std::log(sample->seconds_per_byte);
      is_disturbed = is_disturbed || sample->is_disturbed;
      taken.emplace_back(subject, *sample);
    }
    // A disturbed lap is repeated as a whole.
    if (!sampler_.counts(is_disturbed)) continue;
    for (const auto& [subject, sample] : taken) sampler_.tuned(subject).confirmations.push_back(sample);
    for (Comparison& comparison : comparisons_) {
      if (!is_answered(comparison)) comparison.ratio.add(logs[comparison.against] - logs[comparison.setting]);
    }
    return true;
  }
  return false;
}

std::optional<RatioInterval> Confirming::ratio(std::size_t setting, std::size_t against) const {
  const auto found = std::ranges::find_if(comparisons_, [&](const Comparison& comparison) {
    return comparison.setting == setting && comparison.against == against;
  });
  if (found == comparisons_.end()) return std::nullopt;
  return found->ratio.interval();
}

}  // namespace tzmark::bench
