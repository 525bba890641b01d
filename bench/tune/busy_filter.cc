// Keeps the recent samples; see busy_filter.h.
#include "tune/busy_filter.h"

#include <algorithm>

namespace tzmark::bench {
namespace {

constexpr std::size_t kRecentLeast = 5, kRecentMost = 40;
constexpr std::chrono::seconds kRecentTime(6);

}  // namespace

bool BusyFilter::counts(bool is_disturbed, std::chrono::nanoseconds length) {
  recent_.push_back({is_disturbed, length});
  recent_time_ += length;
  while (recent_.size() > kRecentMost ||
         (recent_.size() > kRecentLeast && recent_time_ - recent_.front().length >= kRecentTime)) {
    recent_time_ -= recent_.front().length;
    recent_.pop_front();
  }
  ++samples_;
  disturbed_samples_ += is_disturbed ? 1 : 0;
  const auto disturbed = static_cast<std::size_t>(std::ranges::count_if(recent_, &Seen::is_disturbed));
  const bool is_enough =
      recent_.size() == kRecentMost || (recent_.size() >= kRecentLeast && recent_time_ >= kRecentTime);
  const bool is_busy = is_enough && 4 * disturbed > 3 * recent_.size();
  was_busy_ = was_busy_ || is_busy;
  return !is_disturbed || is_busy;
}

}  // namespace tzmark::bench
