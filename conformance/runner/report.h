// What a run of the suite is told as: a table for people, JSON for programs, JUnit XML for build servers. The HTML page
// is made from the JSON, by reports/render.py.
//
// Thread-safety: pure functions and values.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "runner/adapter.h"
#include "runner/suite.h"

namespace tzmark::conformance {

// Everything about one run. Does not own what it points to.
struct SuiteRun {
  const Manifest* manifest = nullptr;
  const Adapter* adapter = nullptr;
  Selection selection;
  SuiteOptions options;
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds elapsed{0};
  std::vector<CaseResult> results;
  std::vector<std::string> known_problems;  // what is wrong with the list of known failures, one line each

  // Nothing failed but what is known to, and something ran.
  bool passed() const;
};

struct Totals {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t skipped = 0;
  std::size_t known = 0;  // of the failed ones, those that are known to

  std::size_t ran() const { return passed + failed; }
  void add(const CaseResult& result);
  void add(Outcome outcome);
};

Totals totals_of(const std::vector<CaseResult>& results);

// The cases of a run in one input mode alone: by the worst of its steps there, and skipped where there are none.
Totals totals_in(const std::vector<CaseResult>& results, InputMode mode);

// Ends in the line "N passed, N failed, N skipped".
std::string text_report(const SuiteRun& run);

// reports/schema/conformance.schema.json describes it.
Json result_document(const SuiteRun& run);
std::string text_of_result(const Json& document);
std::string json_report(const SuiteRun& run);

std::string junit_report(const SuiteRun& run);

}  // namespace tzmark::conformance
