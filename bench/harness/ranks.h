// Shifts with exact confidence intervals by ranks: Wilcoxon's tests and the estimates of Hodges and Lehmann (1963).
//
// Nothing assumes a normal distribution. The probabilities of rank sums are exact up to a hundred values; above that,
// the normal approximation, whose tails are heavier. Ties count against a difference. Thread-safe; functions throw only
// std::bad_alloc.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace tzmark::bench {

// Returns the largest z with a probability of at most the given one below it.
double normal_quantile(double probability);

// Returns the rank, from 1, of the Walsh average (mean of two of n values, or of one with itself) that is the lower
// bound of the center of symmetry: it is above the center with a probability of at most `tail`. 0: no bound.
std::size_t signed_rank_bound(std::size_t n, double tail);

// Returns the Walsh average of a rank, from 1. sorted: the values, not empty.
double walsh_average(const std::vector<double>& sorted, std::size_t rank);

// Returns the rank of the lower bound of the shift among the n * m differences, as signed_rank_bound does.
std::size_t rank_sum_bound(std::size_t n, std::size_t m, double tail);

// A shift, its interval, and the two-sided p-value of no shift.
struct Shift {
  double estimate = 0;
  std::optional<double> low, high;  // absent with too few values
  double p = 1;
};

// The center of symmetry of differences, by signed ranks: the Wilcoxon signed-rank test. REQUIRES: not empty.
Shift paired_shift(std::vector<double> differences, double alpha);
// How far the values of b are above those of a, by rank sums: the Wilcoxon-Mann-Whitney test. REQUIRES: none is empty.
Shift unpaired_shift(std::span<const double> a, std::span<const double> b, double alpha);

}  // namespace tzmark::bench
