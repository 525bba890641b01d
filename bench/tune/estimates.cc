// Estimates from ranks and from steps between samples; see estimates.h.
#include "tune/estimates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "harness/ranks.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kStepsMin = 5;      // fewer tell nothing of the noise
constexpr std::size_t kFew = 8;           // samples: fewer do not outvote an outlier
constexpr std::size_t kOwnScaleFrom = 8;  // samples, from which a setting's own noise counts as much as that of all
constexpr double kStepOfNormal = 0.9539;  // median step between two samples of a normal distribution
constexpr double kErrorOfLocation = 1.1;  // of one sample, at noise between normal and Student's t
constexpr double kUnknown = std::numeric_limits<double>::infinity();

double scale_of(std::vector<double> steps) {
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle);
  return *middle / kStepOfNormal;
}

std::vector<double> steps_between(std::span<const double> logs) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < logs.size(); ++i) steps.push_back(std::abs(logs[i] - logs[i - 1]));
  return steps;
}

}  // namespace

void Estimates::add(std::size_t setting, double log_seconds) {
  Estimated& estimated = estimated_[setting];
  if (!estimated.logs.empty()) steps_.push_back(std::abs(log_seconds - estimated.logs.back()));
  estimated.logs.push_back(log_seconds);
  estimated.location.reset();
}

double Estimates::location(std::size_t setting) const {
  const Estimated& estimated = estimated_[setting];
  if (!estimated.location) {
    std::vector<double> sorted = estimated.logs;
    std::ranges::sort(sorted);
    const std::size_t averages = sorted.size() * (sorted.size() + 1) / 2;
    estimated.location = (walsh_average(sorted, (averages + 1) / 2) + walsh_average(sorted, averages / 2 + 1)) / 2;
  }
  return *estimated.location;
}

bool Estimates::is_behind(std::size_t a, std::size_t b, double loss, double errors) const {
  if (a == b || behind(a, b) <= loss + errors * std::sqrt(error(a) * error(a) + error(b) * error(b))) return false;
  // One outlier on either side must not decide.
  const double fastest_of_a = count(a) < kFew ? std::ranges::min(logs(a)) : location(a);
  const double slowest_of_b = count(b) < kFew ? std::ranges::max(logs(b)) : location(b);
  return fastest_of_a - slowest_of_b > loss;
}

double Estimates::error(std::size_t setting) const {
  const std::vector<double>& logs = estimated_[setting].logs;
  const auto count = static_cast<double>(logs.size());
  double scale = scale_of_all();
  // Few samples would understate their noise by chance, so that of all settings stands in for it.
  if (logs.size() >= kOwnScaleFrom) {
    scale = (count * scale_of(steps_between(logs)) + kOwnScaleFrom * scale) / (count + kOwnScaleFrom);
  }
  return kErrorOfLocation * scale / std::sqrt(count);
}

double Estimates::scale_of_all() const {
  if (steps_.size() < kStepsMin) return kUnknown;
  // A tenth more steps change little, and each costs a pass over all.
  if (steps_known_ == 0 || steps_.size() > steps_known_ + steps_known_ / 10) {
    scale_ = scale_of(steps_);
    steps_known_ = steps_.size();
  }
  return scale_;
}

}  // namespace tzmark::bench
