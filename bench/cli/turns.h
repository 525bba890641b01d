// Two builds in turn: fresh processes of both, laps of each line within them, until each line is decided.
//
// A process has its memory layout and its minute, which more samples in it do not average out, so a pair of processes
// is the unit: its laps give one ratio per line. A lap runs old, new, new, old, or the other way round by a coin, so
// that drift of the machine cancels. The interval stays valid although it is looked at until it decides
// (harness/sequential.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/sequential.h"
#include "measure/disturbance_filter.h"

namespace tzmark::bench {

// One sample of one line.
struct TurnSample {
  double seconds_per_byte = 0;  // finite, and more than 0
  std::uint64_t bytes = 0;
  Disturbance disturbance;
};

// A process of a build that takes samples.
class BuildProcess {
 public:
  virtual ~BuildProcess() = default;
  BuildProcess(const BuildProcess&) = delete;
  BuildProcess& operator=(const BuildProcess&) = delete;

  // Throws tzmark::Error.
  virtual TurnSample sample(std::size_t line) = 0;
  // Whether it can still take samples.
  virtual bool is_running() const = 0;

 protected:
  BuildProcess() = default;
};

using StartProcess = std::function<std::unique_ptr<BuildProcess>()>;

struct TurnLine {
  explicit TurnLine(double alpha) : ratio(alpha) {}

  SequentialRatio ratio;  // of rates, new over old; its pairs are those of processes
  ChangeVerdict verdict = ChangeVerdict::kUndecided;
  std::vector<double> old_seconds = {}, new_seconds = {};  // per byte, of the laps that count
  std::size_t disturbed_laps = 0;                          // run, but not counted
  std::size_t failures = 0;                                // of samples, of both builds
  std::string last_failure = {};
  std::string why = {};  // not empty: could not be measured
};

struct TurnOptions {
  std::chrono::nanoseconds budget = std::chrono::minutes(10);
  double floor = kChangeFloor, effect = kChangeEffect;
  std::uint64_t seed = 1;
  std::function<void(const std::string& what)> progress = {};  // receives what is done next; may be empty
  std::function<std::string(std::size_t line)> name_of;        // for progress; may be empty only if that is
  std::function<void()> before_pair = {};                      // called when no process runs; may be empty
  std::function<bool()> stop = {};                             // asked before each lap; ends all; may be empty
  std::function<bool(const Disturbance&)> is_disturbed = bench::is_disturbed;
  std::function<std::chrono::steady_clock::time_point()> now = [] { return std::chrono::steady_clock::now(); };
};

// Runs until every line is decided or the budget is spent. A line whose build lacks something, whose builds move
// different amounts, or that fails three times in all, ends with the reason; a process that dies of one ends its pair.
// Wrong bytes (TZE-ENV-005), files that break a rule, and processes that cannot be started are thrown.
MachineConditions run_in_turn(const StartProcess& start_old, const StartProcess& start_new,
                              std::vector<TurnLine>& lines, const TurnOptions& options);

}  // namespace tzmark::bench
