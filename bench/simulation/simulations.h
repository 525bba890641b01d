// The simulations behind docs/what-the-numbers-mean.md. Each returns a table in Markdown and is determined by its seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tzmark::bench::simulation {

struct IntervalSimulation {
  std::size_t runs = 2000;
  std::uint64_t seed = 1;
};

// The interval of a ratio under repeated looks: how often it contains the true ratio at every look, and how many pairs
// decide a bound 5 % below the true ratio. The same for intervals by signs.
std::string interval_table(const IntervalSimulation& options);

}  // namespace tzmark::bench::simulation
