// Runs the cases of a corpus on an adapter, several at a time, and collects the results.
//
// Thread-safety: run_suite starts and ends threads of its own; the callback is called by one of them at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/adapter.h"
#include "runner/judge.h"
#include "runner/manifest.h"
#include "runner/selection.h"
#include "runner/stage.h"

namespace tzmark::conformance {

struct SuiteOptions {
  unsigned jobs = 1;
  LimitOverrides limits = {};
  // Keeps the files of encode cases here, one directory per case.
  std::optional<std::filesystem::path> kept;
  InputModeOptions input = {};
  // What to spend on failures in serve: for each the start of a fresh process and a question, and for those that this
  // one does not show, the search for the earlier questions that they depend on.
  std::chrono::nanoseconds fresh_elapsed_max = std::chrono::seconds(30);
  std::chrono::nanoseconds search_elapsed_max = std::chrono::minutes(1);
  bool secrets_are_public = true;  // keys and passphrases may be printed: they are those of the corpus
};

struct CaseResult {
  Case item;
  std::vector<Step> steps;  // empty if the profile excuses the adapter
  Outcome outcome = Outcome::kSkipped;
  std::string reason;                // one line; empty for a pass
  std::optional<std::string> known;  // of a known failure: why it is expected

  // Whether the case, or one of its questions, was skipped.
  bool skipped_something() const;
  // Whether a case that passes was rejected as it must be, but for a rule that is not one of its rules.
  bool cites_other_rule() const;
  // If the case leaves a choice to the reader: "accepted", "rejected", or the choices of decode and verify if they
  // differ. Empty for other cases, and if the outcome is not a pass.
  std::string choice() const;
};

// Runs the commands that the adapter has on each case: decode, verify and stream in each input mode, or encode. The
// results are in the order of the cases. REQUIRES: load_expected has read the cases. Throws EnvironmentError if a file
// of the corpus differs from the manifest, also at the end, or a process cannot be started. If cancelled becomes true,
// leaves out unfinished cases. Calls progress after each case.
std::vector<CaseResult> run_suite(const Manifest& manifest, const std::vector<Case>& cases, const Adapter& adapter,
                                  const SuiteOptions& options, const std::atomic<bool>& cancelled,
                                  const std::function<void(std::size_t done)>& progress);

// Asks about one file, which need not belong to a corpus: manifest.directory / item.path, with this content and this
// expectation, if its content is to be compared. Throws as run_suite does.
CaseResult run_file_case(const Manifest& manifest, const Case& item, std::span<const std::byte> content,
                         const std::optional<Json>& expected, const Adapter& adapter, const SuiteOptions& options);

// The step of a case to repeat: the one that failed, or the most informative one.
struct Decisive {
  Command command = Command::kDecode;
  InputMode mode = InputMode::kFile;
};
Decisive decisive_step(const CaseResult& result, const Profile& profile, const std::vector<InputMode>& modes);

// The command line that repeats a step: the adapter's own, or that of this suite if a shell is not enough, for a
// specification, for stdin with pauses, or for a URL.
std::string repro_command(const Manifest& manifest, const Case& item, const Adapter& adapter,
                          const InputModeOptions& input, const Decisive& step);

// Features that the profile lacks and no case has: misspelt, or out of date.
std::vector<std::string> stale_exclusions(const Manifest& manifest, const Profile& profile);

}  // namespace tzmark::conformance
