// Remembers the recent laps; see lap_filter.h.
#include "cli/lap_filter.h"

#include <fmt/format.h>

#include <algorithm>

namespace tzmark::bench {
namespace {

// Of so many recent laps, so many may be disturbed before the machine counts as busy.
constexpr std::size_t kRecentLaps = 40;
constexpr std::size_t kDisturbedLapsMax = 30;

}  // namespace

void LapFilter::add(const Disturbance& lap) {
  const bool disturbed = is_disturbed_(lap);
  recent_.push_back(disturbed);
  if (recent_.size() > kRecentLaps) recent_.pop_front();
  ++conditions_.laps;
  conditions_.disturbed_laps += disturbed ? 1 : 0;
  is_busy_ = std::ranges::count(recent_, true) > std::ptrdiff_t{kDisturbedLapsMax};
  conditions_.was_busy = conditions_.was_busy || is_busy_;
}

std::string conditions_text(const ContestConditions& conditions) {
  if (conditions.disturbed_laps == 0) return "";
  return fmt::format(
      "{} of {} laps were disturbed by other processes or the hypervisor; {}\n", conditions.disturbed_laps,
      conditions.laps,
      conditions.was_busy ? "the machine was busy, so that they had to count" : "they were repeated and do not count");
}

}  // namespace tzmark::bench
