// Ratios that are judged while they are measured: more samples go only where something is still open.
//
// A contest compares subjects in laps: each of them once, back to back, in random order, so that drift of the machine
// favors none. Each lap gives one ratio. Laps are as short as that because a virtual machine makes one of some fifteen
// samples much slower (its host probably took memory back): in laps of two samples of each side (ABBA), a quarter of
// the ratios were off, and needed 1.6 times as much time to decide. Contests against the same subject, such as all
// reads over one path, share its samples while they are open. What a subject leaves behind for the next one does not
// cancel, so each begins with the same state of its file and of free memory. A lap that others disturbed
// (harness/disturbance.h) is repeated and does not count. The interval stays valid although it is looked at until it
// decides (harness/sequential.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/rounds.h"
#include "harness/disturbance.h"
#include "harness/sequential.h"
#include "measure/engine.h"

namespace tzmark::bench {

struct Contest {
  std::string name;
  // The first is compared with the others; contests with the same second subject share laps.
  std::vector<std::size_t> subjects;
  // Returns the ratio of a lap from the seconds per byte of each subject.
  std::function<double(std::span<const double>)> ratio;
  double required = 1;
  bool at_most = false;

  // What run_contests finds.
  SequentialRatio interval = SequentialRatio();
  BoundVerdict verdict = BoundVerdict::kUndecided;
  std::size_t disturbed_laps = 0;  // run, but not counted
  std::uint64_t elapsed_ns = 0;    // of its samples, also those that it shares, preparations included
  std::string why = {};            // not empty: could not be measured
};

struct ContestOptions {
  std::chrono::nanoseconds budget = std::chrono::minutes(10);
  std::size_t laps_max = 5'000;  // of one contest
  double zone = kIndifference;
  std::uint64_t seed = 1;
  std::function<void(const std::string& what)> progress = {};  // receives what is done next; may be empty
  std::function<bool()> stop = {};                             // asked before each lap; ends all of them; may be empty
  std::function<bool(const Disturbance&)> is_disturbed = bench::is_disturbed;
  std::function<std::chrono::steady_clock::time_point()> now = [] { return std::chrono::steady_clock::now(); };

  bool is_stopped() const { return stop && stop(); }
};

// Runs some laps of each open contest in turn until each is decided or the budget is spent. When it does not suffice
// for all, those that need the fewest laps go first. Up to a tenth of the budget, borderline ratios get the laps until
// their next look, which may make them clear. REQUIRES: the subjects have been verified. A subject that cannot run or
// fails three times in a row ends its contests with the reason; wrong bytes are thrown (TZE-ENV-005). filter: decides
// which laps count, with what it knows of laps before.
void run_contests(std::vector<Measured>& subjects, std::span<Contest> contests, const ContestOptions& options,
                  DisturbanceFilter& filter);

}  // namespace tzmark::bench
