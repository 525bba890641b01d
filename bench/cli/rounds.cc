// Rounds on Google Benchmark, which runs each subject once a round and keeps its output to itself.
#include "cli/rounds.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <random>

#include "harness/memory.h"
#include "harness/shortages.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

// The samples are kept where they are made; there is nothing to print.
class SilentReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

// A path or a peer that this machine lacks is a fact to report; a wrong result is not.
bool is_absence(const Error& error) { return error.error_class() == ErrorClass::kUnavailable; }

void give_up(Measured& measured, const std::exception& error) {
  measured.why = error.what();
  measured.samples.clear();
}

void verify(Measured& measured) {
  try {
    measured.subject->verify();
  } catch (const Error& error) {
    if (!is_absence(error)) throw Error(error.code(), measured.subject->description().id() + ": " + error.message());
    give_up(measured, error);
  }
}

}  // namespace

std::vector<double> Measured::rates() const {
  std::vector<double> rates;
  const auto bytes = static_cast<double>(subject->description().bytes);
  for (const Sample& sample : samples) rates.push_back(bytes * 1e9 / static_cast<double>(sample.elapsed_ns));
  return rates;
}

std::vector<double> Measured::durable_rates() const {
  std::vector<double> rates;
  const auto bytes = static_cast<double>(subject->description().bytes);
  for (const Sample& sample : samples) {
    rates.push_back(bytes * 1e9 / static_cast<double>(sample.elapsed_ns + sample.sync_ns.value_or(0)));
  }
  return rates;
}

void run_rounds(std::vector<Measured>& subjects, const RoundOptions& options) {
  const auto say = [&](const std::string& what) {
    if (options.progress) options.progress(what);
  };
  for (Measured& measured : subjects) {
    if (!measured.why.empty()) continue;
    say("verify " + measured.subject->description().id());
    verify(measured);
  }
  std::exception_ptr error;
  std::vector<std::size_t> order(subjects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(options.seed);
  SilentReporter reporter;
  for (unsigned round = 0; round < options.rounds && !error; ++round) {
    std::ranges::shuffle(order, random);
    benchmark::ClearRegisteredBenchmarks();
    std::size_t number = 0;
    for (const std::size_t i : order) {
      Measured& measured = subjects[i];
      if (!measured.why.empty()) continue;
      const std::string id = measured.subject->description().id();
      ++number;
      const auto run = [&, id, number](benchmark::State& state) {
        say(fmt::format("round {} of {}, {}: {}", round + 1, options.rounds, number, id));
        for ([[maybe_unused]] auto iteration : state) {
          try {
            touch_free_memory(measured.subject->description().bytes);
            const ShortageWatch watch;
            Sample sample = measured.subject->run();
            sample.transfers_in_place = watch.finish();
            measured.samples.push_back(sample);
            state.SetIterationTime(static_cast<double>(measured.samples.back().elapsed_ns) / 1e9);
          } catch (const Error& e) {
            is_absence(e) ? give_up(measured, e) : void(error = std::current_exception());
            state.SkipWithError("failed");
            break;
          } catch (...) {
            if (!error) error = std::current_exception();
            state.SkipWithError("failed");
            break;
          }
        }
      };
      benchmark::RegisterBenchmark(id.c_str(), run)->Iterations(1)->UseManualTime();
    }
    if (number > 0) benchmark::RunSpecifiedBenchmarks(&reporter, nullptr, ".*");
  }
  benchmark::ClearRegisteredBenchmarks();
  if (error) std::rethrow_exception(error);
}

}  // namespace tzmark::bench
