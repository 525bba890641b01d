// Takes samples in laps, one source after another, and decides which laps count.
//
// A mode of measuring is a schedule, which chooses the sources of the next lap from the laps before, and a stopping
// rule. What disturbs a lap, how often a failure is tried again, and what was taken is the same for all of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "measure/disturbance_filter.h"
#include "tzmark/error.h"

namespace tzmark::bench {

// One measurement of one source.
struct SourceSample {
  double seconds_per_byte = 0;  // finite, and more than 0
  Disturbance disturbance = {};
};

// Why a source is measured no more.
struct SourceFailure {
  std::string why;          // with the rule
  std::string message;      // without it
  bool has_failed = false;  // not something that this machine lacks
};

// Whether an error says that wrong bytes were moved. It ends every measurement: such a source is never timed.
bool means_wrong_bytes(const Error& error);

// Describes the exception that is being handled. Rethrows wrong bytes, and what is no std::exception.
SourceFailure failure_now();

// What can be measured, named by an index. For one thread at a time.
class Source {
 public:
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Measures once. Throws what goes wrong.
  virtual SourceSample take(std::size_t source) = 0;
  // Whether a source that has just failed can be tried again now, which a process that died cannot.
  virtual bool can_retry(std::size_t /*source*/) const { return true; }
  // Is told of each failure, before it is tried again or left out.
  virtual void note_failure(std::size_t /*source*/, const SourceFailure& /*failure*/) {}
  // Is told why a source is measured no more, while the exception is handled. Rethrows it, unless overridden.
  virtual void leave_out(std::size_t source, const SourceFailure& failure);

 protected:
  Source() = default;
};

enum class LapResult {
  kCounts,
  kDisturbed,    // by others, on a machine that is not always so
  kFailed,       // a source failed, and those after it were not measured
  kInterrupted,  // the caller asked to stop
};

struct LapSample {
  std::size_t source = 0;
  double seconds_per_byte = 0;
  Disturbance disturbance = {};
  std::chrono::nanoseconds length{};  // preparations and failed tries included
};

struct Lap {
  std::vector<LapSample> samples = {};  // in the order of time
  Disturbance disturbance = {};         // of all of them
  LapResult result = LapResult::kCounts;

  // Whether it has a sample of each of its sources.
  bool is_complete() const { return result == LapResult::kCounts || result == LapResult::kDisturbed; }
  // REQUIRES: the lap has a sample of the source.
  const LapSample& of(std::size_t source) const;
};

// All samples that an engine took, also those that do not count.
class SampleLog {
 public:
  struct Entry {
    std::size_t source = 0;
    double seconds_per_byte = 0;
    LapResult result = LapResult::kCounts;  // of its lap
  };

  void add(const Lap& lap);
  const std::vector<Entry>& entries() const { return entries_; }
  // How long a sample of the source takes on average, preparations included; 0 before the first one.
  double mean_length_ns(std::size_t source) const;

 private:
  struct Lengths {
    std::chrono::nanoseconds sum{};
    std::size_t samples = 0;
  };

  std::vector<Entry> entries_;
  std::map<std::size_t, Lengths> lengths_;
};

// Ends a run at a time, if there is one, or when the caller asks for it.
struct StoppingRule {
  using Clock = std::chrono::steady_clock;

  std::function<bool()> stop = {};  // may be empty
  std::function<Clock::time_point()> now = [] { return Clock::now(); };
  std::optional<Clock::time_point> end = {};

  bool is_stopped() const { return stop && stop(); }
  // Until the end; 0 if the caller asked to stop, and the maximum without an end.
  std::chrono::nanoseconds rest() const;
};

struct Schedule {
  // Returns the sources of the next lap in their order; empty ends the run.
  std::function<std::vector<std::size_t>()> next;
  // Receives each lap. May be empty.
  std::function<void(const Lap&)> conclude = {};
};

// For one thread at a time. Keeps references to the source and the filter.
class Engine {
 public:
  enum class Failures { kInARow, kInAll };

  // tries: a source that fails so often, in a row or in all, or needs something that this machine lacks, is left out.
  Engine(Source& source, DisturbanceFilter& filter, StoppingRule rule, unsigned tries = 3,
         Failures counted = Failures::kInARow)
      : source_(source), filter_(filter), rule_(std::move(rule)), tries_(tries), counted_(counted) {}

  // Takes laps until the schedule or the stopping rule ends them, which is asked before each lap. Throws wrong bytes,
  // and what the source rethrows.
  void run(const Schedule& schedule);
  // Takes one lap, unless the caller asked to stop, which is asked before each sample.
  Lap take(const std::vector<std::size_t>& order);

  void set_end(StoppingRule::Clock::time_point end) { rule_.end = end; }
  std::chrono::nanoseconds rest() const { return rule_.rest(); }
  const SampleLog& log() const { return log_; }

 private:
  std::optional<LapSample> try_sample(std::size_t source);

  Source& source_;
  DisturbanceFilter& filter_;
  StoppingRule rule_;
  const unsigned tries_;
  const Failures counted_;
  std::map<std::size_t, unsigned> failures_;  // by source; in a row, since its last lap without one
  SampleLog log_;
};

}  // namespace tzmark::bench
