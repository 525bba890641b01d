// Seeded noise of repeated timings, as the logarithm of a time, with the kinds that benchmarks meet.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>
#include <random>
#include <string_view>

namespace tzmark::bench::simulation {

enum class NoiseKind {
  kGaussian,        // 10 %
  kHeavyTailed,     // Student's t with 2.5 degrees of freedom, scaled to 6 %
  kOutliers,        // 8 %, and 5 % of the times are three times as long
  kDrifting,        // 5 %, a trend of 0.2 % per time and a wave of 10 %
  kBimodal,         // two modes 30 % apart, each time in either
  kModes,           // the same, but a mode lasts for 50 times on average
  kAutoregressive,  // 10 %, with a correlation of 0.9 between neighbors
  kSkewed,          // one-sided 10 % for the first subject, 5 % for the second
  kOwnDrift,        // as autoregressive, but each subject has its own
};

inline std::string_view name_of(NoiseKind kind) {
  switch (kind) {
    case NoiseKind::kGaussian:
      return "Gaussian";
    case NoiseKind::kHeavyTailed:
      return "heavy tails (t, 2.5 d.o.f.)";
    case NoiseKind::kOutliers:
      return "5 % outliers of 200 %";
    case NoiseKind::kDrifting:
      return "drifting";
    case NoiseKind::kBimodal:
      return "bimodal";
    case NoiseKind::kModes:
      return "lasting modes";
    case NoiseKind::kAutoregressive:
      return "autocorrelated (0.9)";
    case NoiseKind::kSkewed:
      return "skewed on one side only";
    case NoiseKind::kOwnDrift:
      break;
  }
  return "autocorrelated, each side its own";
}

// One machine's noise over time. For one thread at a time.
class Noise {
 public:
  Noise(NoiseKind kind, std::mt19937_64& random) : kind_(kind), random_(random) {
    if (kind_ == NoiseKind::kDrifting) phase_ = uniform() * 2 * std::numbers::pi;
    for (double& state : states_) state = 0.1 * normal();
    high_mode_ = uniform() < 0.5;
  }

  // Returns the next logarithm of a time of the first subject (0) or the second (1).
  double next(std::size_t subject) {
    const auto now = static_cast<double>(count_++);
    switch (kind_) {
      case NoiseKind::kGaussian:
        return 0.1 * normal();
      case NoiseKind::kHeavyTailed:
        return 0.06 * std::student_t_distribution<double>(2.5)(random_);
      case NoiseKind::kOutliers:
        return 0.08 * normal() + (uniform() < 0.05 ? std::log(3.0) : 0);
      case NoiseKind::kDrifting:
        return 0.05 * normal() + 0.002 * now + 0.1 * std::sin(phase_ + now * 2 * std::numbers::pi / 50);
      case NoiseKind::kBimodal:
        return 0.03 * normal() + (uniform() < 0.5 ? 0.3 : 0);
      case NoiseKind::kModes:
        if (uniform() < 0.02) high_mode_ = !high_mode_;
        return 0.03 * normal() + (high_mode_ ? 0.3 : 0);
      case NoiseKind::kSkewed:
        // The median of the difference is 0, the pseudo-median 0.009.
        return subject == 0 ? 0.1 * std::exponential_distribution<double>()(random_) - 0.0789 : 0.05 * normal();
      case NoiseKind::kAutoregressive:
        return step(states_[0]);
      case NoiseKind::kOwnDrift:
        break;
    }
    return step(states_[subject]);
  }

  double uniform() { return std::uniform_real_distribution<double>()(random_); }
  double normal() { return std::normal_distribution<double>()(random_); }

 private:
  double step(double& state) {
    state = 0.9 * state + 0.1 * std::sqrt(1 - 0.81) * normal();
    return state;
  }

  NoiseKind kind_;
  std::mt19937_64& random_;
  std::size_t count_ = 0;
  double phase_ = 0;
  double states_[2] = {0, 0};
  bool high_mode_ = false;
};

// Returns the logarithm of the ratio of the first subject's time to the second's, without the true one, of a pair that
// runs back to back in random or fixed order.
inline double pair_noise(Noise& noise, bool fixed_order) {
  if (fixed_order || noise.uniform() < 0.5) {
    const double first = noise.next(0);
    return first - noise.next(1);
  }
  const double second = noise.next(1);
  return noise.next(0) - second;
}

}  // namespace tzmark::bench::simulation
