// How fast each setting is by its samples so far, and how certain that is. Robust to heavy tails: nothing is a mean.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tzmark::bench {

// Works on logarithms of seconds per byte: lower is faster. For one thread at a time.
class Estimates {
 public:
  explicit Estimates(std::size_t settings) : estimated_(settings) {}

  void add(std::size_t setting, double log_seconds);

  std::size_t count(std::size_t setting) const { return estimated_[setting].logs.size(); }
  const std::vector<double>& logs(std::size_t setting) const { return estimated_[setting].logs; }

  // Returns the median of all means of two samples (Hodges and Lehmann): of Student's t with 2.5 degrees of freedom, it
  // has a tenth less error than the median. REQUIRES: count() > 0.
  double location(std::size_t setting) const;
  // Returns how much slower a is than b.
  double behind(std::size_t a, std::size_t b) const { return location(a) - location(b); }
  // Whether a is slower than b by more than `loss` and this many standard errors.
  bool is_behind(std::size_t a, std::size_t b, double loss, double errors) const;

 private:
  struct Estimated {
    std::vector<double> logs;
    mutable std::optional<double> location;
  };

  double error(std::size_t setting) const;
  double scale_of_all() const;

  std::vector<Estimated> estimated_;
  std::vector<double> steps_;  // between consecutive samples of the same setting, without sign
  mutable std::size_t steps_known_ = 0;
  mutable double scale_ = 0;
};

}  // namespace tzmark::bench
