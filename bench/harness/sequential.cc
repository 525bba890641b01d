// Signed ranks at looks that are set in advance; see sequential.h.
#include "harness/sequential.h"

#include <algorithm>
#include <cmath>

#include "harness/ranks.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kLooks = 16;
constexpr std::size_t kFirstLook = 10;
constexpr double kLookFactor = 1.5;

// An upper bound of a ratio is a lower bound of its inverse.
RatioInterval inverse(const RatioInterval& interval) {
  return {1 / interval.estimate, 1 / interval.high, 1 / interval.low, interval.pairs};
}

double log_width(const RatioInterval& interval) { return std::log(interval.high / interval.low); }

double log_zone(double zone) { return -std::log1p(-zone); }

}  // namespace

SequentialRatio::SequentialRatio(double alpha) : tail_(alpha / 2 / static_cast<double>(kLooks)) {
  auto pairs = static_cast<double>(kFirstLook);
  for (std::size_t i = 0; i < kLooks; ++i, pairs *= kLookFactor) {
    const auto whole = static_cast<std::size_t>(pairs);
    looks_.push_back({whole, signed_rank_bound(whole, tail_)});
  }
}

bool SequentialRatio::add(double log_ratio) {
  // Beyond e^30 only the rank counts, and infinities would have no mean.
  log_ratios_.push_back(std::clamp(log_ratio, -30.0, 30.0));
  if (exhausted() || log_ratios_.size() < looks_[look_].pairs) return false;
  look(looks_[look_].rank);
  return true;
}

void SequentialRatio::finish() {
  if (exhausted() || log_ratios_.empty() || interval_.pairs == log_ratios_.size()) return;
  look(signed_rank_bound(log_ratios_.size(), tail_));
}

std::size_t SequentialRatio::next_look() const { return exhausted() ? looks_.back().pairs : looks_[look_].pairs; }

void SequentialRatio::look(std::size_t rank) {
  ++look_;
  std::vector<double> sorted = log_ratios_;
  std::ranges::sort(sorted);
  const std::size_t averages = sorted.size() * (sorted.size() + 1) / 2;
  interval_ = {};
  interval_.pairs = sorted.size();
  interval_.estimate =
      std::exp((walsh_average(sorted, (averages + 1) / 2) + walsh_average(sorted, averages / 2 + 1)) / 2);
  if (rank == 0) return;
  interval_.low = std::exp(walsh_average(sorted, rank));
  interval_.high = std::exp(walsh_average(sorted, averages + 1 - rank));
}

BoundVerdict judge_ratio(const RatioInterval& interval, double bound, bool at_most, double zone) {
  if (at_most) return judge_ratio(inverse(interval), 1 / bound, false, zone);
  const double edge = bound * (1 - zone);
  if (interval.low >= bound) return BoundVerdict::kPass;
  if (interval.low >= edge) return BoundVerdict::kPassBorderline;
  if (interval.high < edge) return BoundVerdict::kFail;
  const bool precise = log_width(interval) < log_zone(zone);
  return precise ? BoundVerdict::kBorderline : BoundVerdict::kUndecided;
}

std::size_t pairs_to_decide(const RatioInterval& interval, double bound, bool at_most, double zone) {
  if (at_most) return pairs_to_decide(inverse(interval), 1 / bound, false, zone);
  if (interval.low <= 0) return 0;
  // Excluding the zone's edge decides, and so does the width of the zone. The estimate has a standard error of about
  // a third of half the width.
  const double half = log_width(interval) / 2;
  const double from_edge = std::abs(std::log(interval.estimate / (bound * (1 - zone)))) + half / 3;
  const double shrink = half / std::max(from_edge, log_zone(zone) / 2);
  return static_cast<std::size_t>(std::ceil(static_cast<double>(interval.pairs) * shrink * shrink));
}

ChangeVerdict judge_change(const RatioInterval& interval, double floor, double effect) {
  if (interval.high < 1 - floor) return ChangeVerdict::kSlower;
  if (interval.low > 1 + floor) return ChangeVerdict::kFaster;
  return interval.low > 1 - effect ? ChangeVerdict::kSame : ChangeVerdict::kUndecided;
}

std::string_view verdict_name(ChangeVerdict verdict) {
  switch (verdict) {
    case ChangeVerdict::kSlower:
      return "slower";
    case ChangeVerdict::kFaster:
      return "faster";
    case ChangeVerdict::kSame:
      return "same";
    case ChangeVerdict::kUndecided:
      break;
  }
  return "undecided";
}

std::string_view verdict_name(BoundVerdict verdict) {
  switch (verdict) {
    case BoundVerdict::kPass:
      return "pass";
    case BoundVerdict::kPassBorderline:
      return "pass, borderline";
    case BoundVerdict::kBorderline:
      return "borderline";
    case BoundVerdict::kFail:
      return "fail";
    case BoundVerdict::kUndecided:
      break;
  }
  return "undecided";
}

}  // namespace tzmark::bench
