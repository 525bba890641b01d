// Which of several workers is slower than the others, and stays so.
//
// Nothing is compared but durations of the same lap. A worker is slow if, over the laps, its duration is above the
// median of the others by more than chance explains (Wilcoxon's signed-rank test, corrected for the number of workers)
// and by more than a share that matters. In each lap the workers have other parts of the work, so that a slow part is
// not taken for a slow worker. Thread-safe; functions throw only std::bad_alloc.
#pragma once

#include <cstddef>
#include <vector>

namespace tzmark::bench {

struct Straggler {
  std::size_t worker = 0;
  double ratio = 1;  // of its duration to the median of the others
  double low = 1;    // bound of that ratio
  double p = 1;      // after the correction
};

struct StragglerRule {
  double ratio_min = 1.1;  // less does not matter
  double p_max = 0.01;
};

// With two workers neither is the one that is slow, only one of them is slower.
inline constexpr std::size_t kStragglerWorkersMin = 3;

// The laps that are needed before anything can be named, by the number of workers.
std::size_t straggler_laps_min(std::size_t workers, const StragglerRule& rule = {});

// durations[lap][worker], all above 0. Names none where workers or laps are too few.
std::vector<Straggler> find_stragglers(const std::vector<std::vector<double>>& durations,
                                       const StragglerRule& rule = {});

// The index of Jain, Chiu and Hawe (1984): 1 if all values are equal, 1/n if one has everything. 1 for no values.
double jain_index(const std::vector<double>& values);

}  // namespace tzmark::bench
