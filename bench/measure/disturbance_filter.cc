// Remembers the recent laps; see disturbance_filter.h.
#include "measure/disturbance_filter.h"

#include <fmt/format.h>

#include <algorithm>

namespace tzmark::bench {
namespace {

constexpr std::size_t kRecentLeast = 5, kRecentMost = 40;
constexpr std::chrono::seconds kRecentTime(6);

}  // namespace

void DisturbanceFilter::add(const Disturbance& lap) {
  recent_.push_back({is_disturbed_(lap), std::chrono::nanoseconds(lap.elapsed_ns)});
  recent_time_ += recent_.back().length;
  while (recent_.size() > kRecentMost ||
         (recent_.size() > kRecentLeast && recent_time_ - recent_.front().length >= kRecentTime)) {
    recent_time_ -= recent_.front().length;
    recent_.pop_front();
  }
  ++conditions_.laps;
  conditions_.disturbed_laps += recent_.back().is_disturbed ? 1 : 0;
  const auto disturbed = static_cast<std::size_t>(std::ranges::count_if(recent_, &Recent::is_disturbed));
  const bool is_long = recent_.size() >= kRecentLeast && recent_time_ >= kRecentTime;
  is_busy_ = 4 * disturbed > 3 * (is_long ? recent_.size() : kRecentMost);
  conditions_.was_busy = conditions_.was_busy || is_busy_;
}

std::string conditions_text(const MachineConditions& conditions) {
  if (conditions.disturbed_laps == 0) return "";
  return fmt::format(
      "{} of {} laps were disturbed by other processes or the hypervisor; {}\n", conditions.disturbed_laps,
      conditions.laps,
      conditions.was_busy ? "the machine was busy, so that they had to count" : "they were repeated and do not count");
}

}  // namespace tzmark::bench
