// Writes results as Google Benchmark does; see google_document.h.
#include "cli/google_document.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <thread>

#include "harness/small_file.h"
#include "harness/statistics.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

struct Aggregate {
  const char* name;
  double (*of)(const std::vector<double>&);
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(const std::vector<double>& values) { return median_interval(values).median; }

// Of a sample, as Google Benchmark computes it.
double standard_deviation(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += (value - mean(values)) * (value - mean(values));
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

constexpr Aggregate kAggregates[] = {{"mean", mean}, {"median", median}, {"stddev", standard_deviation}};

// One number per round under each name that Google Benchmark or a user counter of it has.
using Columns = std::vector<std::pair<const char*, std::vector<double>>>;

Columns columns_of(const Measured& measured) {
  std::vector<double> real_time, cpu_time;
  for (const Sample& sample : measured.samples) {
    real_time.push_back(static_cast<double>(sample.elapsed_ns));
    // Programs that read the format require a number.
    cpu_time.push_back(static_cast<double>(sample.cpu_ns.value_or(0)));
  }
  Columns columns = {{"real_time", real_time}, {"cpu_time", cpu_time}, {"bytes_per_second", measured.rates()}};
  if (measured.samples.front().sync_ns) columns.emplace_back("durable_bytes_per_second", measured.durable_rates());
  return columns;
}

#ifdef NDEBUG
constexpr const char* kBuildType = "release";
#else
constexpr const char* kBuildType = "debug";
#endif

json context_of(const std::vector<std::string>& command) {
  utsname names{};
  ::uname(&names);
  std::array<double, 3> load{};
  const int loads = ::getloadavg(load.data(), static_cast<int>(load.size()));
  const std::string megahertz = labelled(read_text("/proc/cpuinfo").value_or(""), "cpu MHz").value_or("0");
  const auto governor = read_value("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  return {{"date", fmt::format("{:%Y-%m-%dT%H:%M:%S+00:00}", fmt::gmtime(std::time(nullptr)))},
          {"host_name", names.nodename},
          {"executable", command.front()},
          {"num_cpus", std::thread::hardware_concurrency()},
          {"mhz_per_cpu", std::lround(std::strtod(megahertz.c_str(), nullptr))},
          {"cpu_scaling_enabled", governor && *governor != "performance"},
          // Bencher requires the member but reads nothing from it.
          {"caches", json::array()},
          {"load_avg", std::vector<double>(load.begin(), load.begin() + std::max(0, loads))},
          {"library_build_type", kBuildType},
          {"command", fmt::format("{}", fmt::join(command, " "))},
          {"tzmark_version", version()},
          {"tzmark_commit", commit()}};
}

}  // namespace

GoogleDocument::GoogleDocument(const std::vector<std::string>& command) {
  json_ = {{"context", context_of(command)}, {"benchmarks", json::array()}};
}

void GoogleDocument::add(const std::vector<Measured>& measured) {
  for (const Measured& m : measured) {
    const std::string id = m.description().id();
    const std::size_t rounds = m.samples.size();
    const json common = {{"name", id},
                         {"run_name", id},
                         {"family_index", families_++},
                         {"per_family_instance_index", 0},
                         {"repetitions", std::max<std::size_t>(1, rounds)},
                         {"threads", m.description().threads.value_or(1)},
                         {"time_unit", "ns"}};
    json iteration = common;
    iteration.update({{"run_type", "iteration"}, {"repetition_index", 0}, {"iterations", 1}});
    if (rounds == 0) {
      iteration.update({{"error_occurred", true}, {"error_message", m.why}, {"real_time", 0.0}, {"cpu_time", 0.0}});
      json_["benchmarks"].push_back(std::move(iteration));
      continue;
    }
    const Columns columns = columns_of(m);
    for (std::size_t round = 0; round < rounds; ++round) {
      iteration["repetition_index"] = round;
      for (const auto& [name, values] : columns) iteration[name] = values[round];
      json_["benchmarks"].push_back(iteration);
    }
    if (rounds < 2) continue;
    for (const Aggregate& aggregate : kAggregates) {
      json entry = common;
      entry.update({{"name", fmt::format("{}_{}", id, aggregate.name)},
                    {"run_type", "aggregate"},
                    {"aggregate_name", aggregate.name},
                    {"aggregate_unit", "time"},
                    {"iterations", rounds}});
      for (const auto& [name, values] : columns) entry[name] = aggregate.of(values);
      json_["benchmarks"].push_back(std::move(entry));
    }
  }
}

}  // namespace tzmark::bench
