// Runs the cases of a corpus on an adapter, several at a time, and gathers what came of them.
//
// Thread-safety: run_suite starts and ends threads of its own; the callback is called by one of them at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/adapter.h"
#include "runner/judge.h"
#include "runner/manifest.h"
#include "runner/stage.h"

namespace tzmark::conformance {

// Which cases to run; empty lists mean all.
struct Selection {
  std::vector<std::string> ids;      // shell patterns, one of which the id has to match
  std::vector<std::string> layouts;  // one of which the layout has to be
  std::vector<std::string> rules;    // one of which the case has to be about
};

std::vector<Case> select_cases(const Manifest& manifest, const Selection& selection);

struct SuiteOptions {
  unsigned jobs = 1;
  // In place of the limits of the cases.
  std::optional<std::chrono::nanoseconds> elapsed_max;
  std::optional<std::uint64_t> memory_max_bytes;
  // Where the files of encode cases stay, in a folder each.
  std::optional<std::filesystem::path> kept;
  InputOptions input = {};
};

struct CaseResult {
  Case item;
  std::vector<Step> steps;  // empty if the profile excuses the adapter
  Outcome outcome = Outcome::kSkipped;
  std::string reason;                // one line; empty for a pass
  std::optional<std::string> known;  // why it is expected to fail, in a failure that is

  // Whether a refusal cited a rule that is not among the case's.
  bool cites_other_rule() const;
  // Of a case that leaves the choice to the reader: "accepted", "rejected", or what decode and verify chose where they
  // differ. Empty for other cases, and where the outcome is not a pass.
  std::string choice() const;
};

// Runs decode, verify and stream in each input mode, so far as the adapter has them, or encode on each case. The
// results are in the order of the cases. Throws EnvironmentError if a file of the corpus is not the one that the
// manifest means, or a process cannot be started. If cancelled becomes true, the cases that are not through yet are
// left out. Progress is called after each case.
std::vector<CaseResult> run_suite(const Manifest& manifest, const std::vector<Case>& cases, const Adapter& adapter,
                                  const SuiteOptions& options, const std::atomic<bool>& cancelled,
                                  const std::function<void(std::size_t done)>& progress);

// What of a case is worth repeating: the step that failed, or the one that tells most.
struct Decisive {
  Command command = Command::kDecode;
  InputMode mode = InputMode::kFile;
};
Decisive decisive_step(const CaseResult& result, const Profile& profile, const std::vector<InputMode>& modes);

// The command line that repeats a step: what the adapter was asked, or this suite's own with that case alone where more
// is needed than a shell has: a specification that has to be made into files, or stdin with pauses.
std::string repro_command(const Manifest& manifest, const Case& item, const Adapter& adapter, const InputOptions& input,
                          const Decisive& step);

// Features that the profile lacks although no case of the manifest has them: spelling mistakes, or out of date.
std::vector<std::string> stale_exclusions(const Manifest& manifest, const Profile& profile);

}  // namespace tzmark::conformance
