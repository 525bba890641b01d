// Reports of a run: a table for people, JSON for programs, JUnit XML and TAP for build servers, a badge, a summary and
// annotations for the page of a repository. reports/render.py makes the HTML page from the JSON.
//
// Thread-safety: pure functions and values.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/adapter.h"
#include "runner/policy.h"
#include "runner/suite.h"

namespace tzmark::conformance {

// Everything about one run. Does not own what it points to.
struct SuiteRun {
  const Manifest* manifest = nullptr;
  const Adapter* adapter = nullptr;
  Selection selection;
  SuiteOptions options;
  std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
  std::chrono::nanoseconds elapsed{0};
  std::vector<CaseResult> results = {};
  std::vector<std::string> known_problems = {};  // errors of the list of known failures, one line each

  Policies policies = {};
  std::optional<std::size_t> skipped_max = {};  // cases; no limit if there is none

  // Cases that were skipped, whole or in part.
  std::size_t skipped() const;
  bool skipped_too_many() const { return skipped_max && skipped() > *skipped_max; }
  // Whether something ran, nothing failed but known failures, and not more was skipped than may be.
  bool passed() const;
};

struct Totals {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t skipped = 0;
  std::size_t known = 0;  // of the failed ones, those that are listed as known

  std::size_t ran() const { return passed + failed; }
  void add(const CaseResult& result);
  void add(Outcome outcome);
};

Totals totals_of(const std::vector<CaseResult>& results);

// The cases of a run in one input mode: each by its worst step there, or skipped if it has none.
Totals totals_in(const std::vector<CaseResult>& results, InputMode mode);

// The cases that were asked in an input mode which the run does not name, and the time that it took of all threads
// together.
struct SampledMode {
  InputMode mode = InputMode::kFile;
  Totals totals;
  std::chrono::nanoseconds elapsed{0};
};
std::vector<SampledMode> sampled_in(const SuiteRun& run);

// A line with the field in which a failure shows; empty if there is none.
std::string failing_field(const Step& step);

// Ends with the line "N passed, N failed, N skipped".
std::string text_report(const SuiteRun& run);

// One line for each thing that the adapter is not kept from (restrict.h); empty if there is none.
std::string containment_lines(const Adapter& adapter);

// The members "argv", "profile" and "containment_gaps" of results.
Json describe(const Adapter& adapter);

// A step as the member "steps" of a case has it.
Json describe(const Step& step);

// As in reports/schema/conformance.schema.json, which has this version.
inline constexpr int kResultVersion = 3;
Json result_document(const SuiteRun& run);

std::string junit_report(const SuiteRun& run);

// Test Anything Protocol, version 14: a test per case, and one per other problem that fails the run.
std::string tap_report(const SuiteRun& run);

// A badge as shields.io's endpoint takes it: https://shields.io/badges/endpoint-badge.
std::string badge_report(const SuiteRun& run);

// Markdown, in which nothing that the adapter printed is markup.
std::string summary_report(const SuiteRun& run);

// Commands of GitHub's workflows, one per rule with failures: ::error title=...::...
std::string annotation_lines(const SuiteRun& run);

// The text, of which a workflow of GitHub takes nothing for a command, whatever an adapter printed.
std::string without_commands(std::string_view text);

}  // namespace tzmark::conformance
