// Weighted least squares of three terms; see cost_model.h.
#include "tune/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "harness/statistics.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kTerms = 3;
constexpr std::size_t kPointsMin = kTerms + 1;  // without one to spare, there is no spread
constexpr int kReweightings = 30;
constexpr double kHuber = 1.5;         // spreads from which on an error counts less
constexpr double kNormalMad = 1.4826;  // spread of a normal distribution per median absolute deviation
// Of the pivots, after the terms have been scaled to 1: below that they cannot be told apart.
constexpr double kSingular = 1e-9;

using Vector = std::array<double, kTerms>;
using Matrix = std::array<Vector, kTerms>;

// One point: the terms of its time, divided by its time, so that their sum by the coefficients should be 1.
struct Row {
  Vector terms;
  double weight = 1;
};

double middle_of(std::vector<double> values) { return median_interval(std::move(values)).median; }

double product(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) sum += a[i] * b[i];
  return sum;
}

// Inverts the part of a symmetric matrix that belongs to the used terms; zero elsewhere. Nothing if it is singular.
std::optional<Matrix> invert(Matrix matrix, const std::array<bool, kTerms>& used) {
  Matrix inverse = {};
  for (std::size_t i = 0; i < kTerms; ++i) {
    inverse[i][i] = 1;
    if (used[i]) continue;
    for (std::size_t j = 0; j < kTerms; ++j) matrix[i][j] = matrix[j][i] = i == j ? 1 : 0;
  }
  // The diagonal has the largest pivots: the matrix is positive.
  for (std::size_t i = 0; i < kTerms; ++i) {
    const double pivot = matrix[i][i];
    if (!(pivot > kSingular)) return std::nullopt;
    for (std::size_t j = 0; j < kTerms; ++j) {
      matrix[i][j] /= pivot;
      inverse[i][j] /= pivot;
    }
    for (std::size_t k = 0; k < kTerms; ++k) {
      if (k == i) continue;
      const double factor = matrix[k][i];
      for (std::size_t j = 0; j < kTerms; ++j) {
        matrix[k][j] -= factor * matrix[i][j];
        inverse[k][j] -= factor * inverse[i][j];
      }
    }
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    if (!used[i]) inverse[i] = {};
  }
  return inverse;
}

Matrix squares_of(const std::vector<Row>& rows) {
  Matrix squares = {};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kTerms; ++i) {
      for (std::size_t j = 0; j < kTerms; ++j) squares[i][j] += row.weight * row.terms[i] * row.terms[j];
    }
  }
  return squares;
}

double error_of(const Row& row, const Vector& coefficients) { return product(row.terms, coefficients) - 1; }

// The best coefficients that are not negative: those of the subset of terms that fits best, as there are only seven.
Vector solve(const std::vector<Row>& rows) {
  const Matrix squares = squares_of(rows);
  Vector sums = {};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kTerms; ++i) sums[i] += row.weight * row.terms[i];
  }
  Vector best = {};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < 1U << kTerms; ++subset) {
    const std::array<bool, kTerms> used = {(subset & 1) != 0, (subset & 2) != 0, (subset & 4) != 0};
    const auto inverse = invert(squares, used);
    if (!inverse) continue;
    Vector coefficients = {};
    for (std::size_t i = 0; i < kTerms; ++i) coefficients[i] = used[i] ? product((*inverse)[i], sums) : 0;
    if (std::ranges::min(coefficients) < 0) continue;
    double loss = 0;
    for (const Row& row : rows) loss += row.weight * error_of(row, coefficients) * error_of(row, coefficients);
    if (loss < least) {
      least = loss;
      best = coefficients;
    }
  }
  return best;
}

// Huber's weights: errors far beyond the spread of the others count in proportion to their size, not its square.
void reweight(std::vector<Row>& rows, const Vector& coefficients) {
  std::vector<double> errors;
  for (const Row& row : rows) errors.push_back(std::abs(error_of(row, coefficients)));
  const double spread = kNormalMad * middle_of(errors);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].weight = errors[i] > kHuber * spread && errors[i] > 0 ? kHuber * spread / errors[i] : 1;
  }
}

// The spread of the errors without weights: an outlier that the fit ignores may meet the next workload as well.
double spread_of(const std::vector<Row>& rows, const Vector& coefficients) {
  double squares = 0;
  for (const Row& row : rows) squares += error_of(row, coefficients) * error_of(row, coefficients);
  return std::sqrt(squares / static_cast<double>(rows.size() - kTerms));
}

// The probability that Student's t is beyond `t` in both tails (Abramowitz and Stegun 26.7.3 and 26.7.4).
double both_tails_beyond(std::size_t freedom, double t) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
  const double cosine = std::cos(angle);
  const bool is_odd = freedom % 2 == 1;
  double term = is_odd ? cosine : 1;
  double sum = freedom == 1 ? 0 : term;
  for (std::size_t i = is_odd ? 3 : 2; i + 2 <= freedom; i += 2) {
    term *= cosine * cosine * static_cast<double>(i - 1) / static_cast<double>(i);
    sum += term;
  }
  const double inside = is_odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  return 1 - inside;
}

}  // namespace

double student_t_quantile(std::size_t freedom, double both_tails) {
  double low = 0;
  double high = 1;
  while (both_tails_beyond(freedom, high) > both_tails && high < 1e9) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (both_tails_beyond(freedom, middle) > both_tails ? low : high) = middle;
  }
  return high;
}

std::optional<CostModel> CostModel::fit(std::span<const CostPoint> points) {
  if (points.size() < kPointsMin) return std::nullopt;
  std::vector<Row> rows;
  Vector scale = {};
  for (const CostPoint& point : points) {
    if (point.seconds.empty()) return std::nullopt;
    const double seconds = middle_of(point.seconds);
    if (!(seconds > 0)) return std::nullopt;
    rows.push_back(
        {{1 / seconds, static_cast<double>(point.tensors) / seconds, static_cast<double>(point.bytes) / seconds}});
    for (std::size_t i = 0; i < kTerms; ++i) scale[i] = std::max(scale[i], rows.back().terms[i]);
  }
  // Bytes are 10^9 times as many as tensors: without scales, nothing could be inverted.
  for (std::size_t i = 0; i < kTerms; ++i) {
    if (!(scale[i] > 0)) return std::nullopt;
    for (Row& row : rows) row.terms[i] /= scale[i];
  }
  const auto uncertainty = invert(squares_of(rows), {true, true, true});
  if (!uncertainty) return std::nullopt;
  Vector coefficients = solve(rows);
  for (int i = 0; i < kReweightings; ++i) {
    reweight(rows, coefficients);
    coefficients = solve(rows);
  }
  CostModel model;
  model.spread_ = spread_of(rows, coefficients);
  // One less than a normal distribution would need, because errors of workloads have heavier tails.
  model.freedom_ = std::max<std::size_t>(1, rows.size() - kTerms - 1);
  for (std::size_t i = 0; i < kTerms; ++i) {
    model.coefficients_[i] = coefficients[i] / scale[i];
    for (std::size_t j = 0; j < kTerms; ++j) model.covariance_[i][j] = (*uncertainty)[i][j] / scale[i] / scale[j];
  }
  return model;
}

CostPrediction CostModel::predict(std::uint64_t tensors, std::uint64_t bytes, double confidence) const {
  const Terms terms = {1, static_cast<double>(tensors), static_cast<double>(bytes)};
  const double seconds = product(terms, coefficients_);
  double of_coefficients = 0;
  for (std::size_t i = 0; i < kTerms; ++i) of_coefficients += terms[i] * product(covariance_[i], terms);
  // The spread is relative, the uncertainty of the coefficients is not.
  const double deviation = spread_ * std::sqrt(seconds * seconds + std::max(0.0, of_coefficients));
  const double margin = student_t_quantile(freedom_, 1 - confidence) * deviation;
  return {seconds, std::max(0.0, seconds - margin), seconds + margin};
}

}  // namespace tzmark::bench
