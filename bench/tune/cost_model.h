// What a load or save costs: time = open + a x tensors + b x bytes, fitted to measured workloads.
//
// Values; functions are thread-safe and throw only std::bad_alloc, unless they say otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tzmark::bench {

// A workload that was measured several times.
struct CostPoint {
  std::uint64_t tensors = 0, bytes = 0;
  std::vector<double> seconds;  // of each sample, more than 0
};

struct CostPrediction {
  double seconds = 0, low = 0, high = 0;
};

class CostModel {
 public:
  // Minimizes the relative errors of the median of each point, with less weight on points that do not fit (Huber), over
  // coefficients that are not negative. Returns nothing for fewer than four points, or for points in which a
  // coefficient cannot be told from the others (all with the same number of bytes per tensor, for example).
  static std::optional<CostModel> fit(std::span<const CostPoint> points);

  double open_s() const { return coefficients_[0]; }
  double per_tensor_s() const { return coefficients_[1]; }
  double per_byte_s() const { return coefficients_[2]; }
  // Standard deviation of the relative errors of the points.
  double spread() const { return spread_; }

  // Predicts the median time of a workload. The interval contains it with a probability of `confidence`, if its
  // relative error is like those of the points: it has their spread, the uncertainty of the coefficients, which grows
  // with the distance from the points, and Student's t for how few they are.
  CostPrediction predict(std::uint64_t tensors, std::uint64_t bytes, double confidence = 0.95) const;

 private:
  using Terms = std::array<double, 3>;

  CostModel() = default;

  Terms coefficients_ = {};
  std::array<Terms, 3> covariance_ = {};  // of the coefficients, for a spread of 1
  double spread_ = 0;
  std::size_t freedom_ = 1;  // of Student's t
};

// Returns the t that Student's distribution exceeds with that probability in both tails together.
double student_t_quantile(std::size_t freedom, double both_tails);

}  // namespace tzmark::bench
