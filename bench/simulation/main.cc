// tzmark-bench-simulation: prints the tables of docs/what-the-numbers-mean.md. Not installed.
//
// usage: tzmark-bench-simulation TABLE [SHARE [REAL-RUNS.json]], with a share of the documented number of comparisons.
// The table "tuning" has bounds: the exit status is 1 if one is missed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "simulation/simulations.h"

int main(int argc, char** argv) {
  using namespace tzmark::bench::simulation;
  const std::string_view table = argc > 1 ? argv[1] : "";
  const double share = argc > 2 ? std::strtod(argv[2], nullptr) : 1;
  const auto scaled = [&](std::size_t count) {
    return static_cast<std::size_t>(static_cast<double>(count) * share + 0.5);
  };
  ComparisonSimulation comparisons;
  comparisons.comparisons = scaled(comparisons.comparisons);
  if (argc > 3) {
    std::ifstream stream(argv[3]);
    comparisons.real = read_real_runs(nlohmann::json::parse(stream));
  }
  if (table == "intervals") {
    fmt::print("{}", interval_table({scaled(IntervalSimulation{}.runs), 1}));
  } else if (table == "false-alarms") {
    fmt::print("{}", false_alarm_table(comparisons));
  } else if (table == "power") {
    fmt::print("{}", power_table(comparisons));
  } else if (table == "tuning") {
    const TuningTable tuning = tuning_table({std::max<std::size_t>(1, scaled(TuningSimulation{}.searches)), 1});
    fmt::print("{}", tuning.text);
    return tuning.holds ? 0 : 1;
  } else {
    fmt::print(stderr, "usage: {} intervals|false-alarms|power|tuning [SHARE [REAL-RUNS.json]]\n", argv[0]);
    return 2;
  }
  return 0;
}
