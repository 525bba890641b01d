// Judges whether one set of runs is slower than another, when processes are the unit of replication.
//
// Samples of one process share its memory layout, its page cache and its minute, so they say how well the rate of that
// process is known and nothing about the next one. Each process therefore counts once, by the logarithm of its median
// rate. Ranks of these decide (harness/ranks.h), with Holm's correction for the number of rows, which holds however the
// rows depend on each other. Thread-safe; functions throw only std::bad_alloc.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tzmark::bench {

// Without a measured floor, single processes have to differ by more than this fraction. With a spread of 3 % between
// processes, 30 rows exceed 15 % by chance in 1 % of comparisons; with heavy tails, 27 %.
constexpr double kDefaultFloor = 0.3;

struct ComparisonRule {
  double alpha = 0.01;      // probability that a comparison of equal builds claims any difference
  double threshold = 0.02;  // fraction of the rate; smaller changes are not claimed
  bool paired = false;      // the i-th runs of both sides ran in turn
};

// What two single processes of the same build differ by, measured over several processes (--calibrate).
struct Floor {
  double spread = 0;          // standard deviation of the logarithm of the median rate between processes
  std::size_t processes = 0;  // from which it was computed, at least 2
};

// Logarithms of the median rates of processes; of the ratio to the reference of the same process where there is one.
struct RunSets {
  std::vector<double> before, after;
  std::optional<Floor> floor = {};
  // With one process each: whether the intervals of their samples are disjoint; nothing if that is unknown.
  std::optional<bool> disjoint = true;
};

enum class Change {
  kNone,        // no difference was found
  kRegression,  // slower, by more than the threshold
  kFaster,      // faster, by more than the threshold
  kSmall,       // a difference was found, but it is below the threshold or the floor
  kTooFewRuns,  // no result of so few processes or samples can be significant
};

// "no difference found", "REGRESSION", "faster", "below the threshold", "too few runs"
std::string_view name_of(Change change);

struct Comparison {
  double ratio = 1;                 // of rates, after over before
  std::optional<double> low, high;  // its 95 % interval; absent with too few processes
  std::optional<double> p;          // adjusted; absent with one process on a side, which has no p-value
  // The slow-down, as a fraction, that is found in 95 % of comparisons with this many runs of this spread; absent if
  // none would be.
  std::optional<double> detectable;
  double spread = 0;  // standard deviation of the logarithms between processes, of their differences if paired
  std::optional<double> floor;  // the fraction below which nothing is claimed
  Change change = Change::kNone;
};

// Compares rows that are read together. REQUIRES: no side of a row is empty; equal numbers if paired.
std::vector<Comparison> compare_runs(const std::vector<RunSets>& rows, const ComparisonRule& rule);

// Returns the smallest number of processes on each side with which a row of a table can be significant.
std::size_t runs_required(std::size_t rows, const ComparisonRule& rule);

// Returns the number of processes on each side that find a slow-down in 95 % of comparisons with this spread; nothing
// if a thousand do not.
std::optional<std::size_t> runs_to_find(double slowdown, double spread, std::size_t rows, const ComparisonRule& rule);

}  // namespace tzmark::bench
