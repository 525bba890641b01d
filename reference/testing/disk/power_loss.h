// Runs a change of files, and judges what is left of it if the power goes after any of its system calls.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "testing/faults/system_calls.h"

namespace tzmark::test {

// What a judge is told of the state that it finds.
struct Outcome {
  bool is_finished;            // the change had returned
  bool has_partial_insertion;  // a file system has made a part of an insertion
};

struct PowerLossScenario {
  // Makes the files in a directory that are there, and durable, before the change.
  std::function<void(const std::string& directory)> prepare;
  std::function<void(const std::string& directory)> change;
  // Recovers and says what is wrong then; empty if nothing is. May change the directory.
  std::function<std::string(const std::string& directory, const Outcome& outcome)> judge;
  // Whether all names have to be durable when the change has returned. Removed files may come back otherwise.
  bool makes_names_durable = true;
  bool leaves_out_syncs = true;  // also judges the states without each sync, to find those that are not needed
  // Judges only the states of a disk after the first call that the hook lets fail: those before it are the same without
  // the hook. All of them, where no call fails.
  bool only_after_failure = false;
  // Asked during the change.
  SystemCalls::Hook hook = [](const Call&) { return true; };
  unsigned random_states = 600;  // after each call, and an eighth of that where a sync is left out
};

struct PowerLossReport {
  std::size_t states = 0;  // that differ
  std::size_t syncs = 0;
  std::set<std::string> bad;                 // what is wrong, and after which call
  std::vector<std::string> unnoticed_syncs;  // could be left out, and no state would be bad
};

// A directory for temporary files: in memory, which is faster than a disk, and keeps what is not synced as well.
std::filesystem::path fastest_directory();

// Names of temporary files have * for their random part, and lack the directory.
PowerLossReport lose_power(const PowerLossScenario& scenario);

// Runs a scenario, prints how many states there were, and expects none of them to be bad, at least so many of them, and
// each sync to be noticed but for those that are named.
void expect_safe(const PowerLossScenario& scenario, std::size_t states_min,
                 const std::vector<std::string>& unnoticed_syncs = {});

}  // namespace tzmark::test
