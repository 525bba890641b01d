// What changed between two results of the suite (`conform --json`), for people who must not lose what they had.
//
// Thread-safety: pure functions and values.
#pragma once

#include <string>
#include <vector>

#include "runner/json.h"

namespace tzmark::conformance {

// A case whose outcome is another one, or which only one of the results has.
struct ChangedCase {
  std::string id;
  std::string before, after;  // the outcomes as in results, or "not asked"
  std::string reason;         // of the newer outcome; empty for a pass
  std::vector<std::string> rules;
};

// A case is lost if it passed, and does not pass any more: it fails, known or not, is skipped, or is not asked; also if
// one of its commands is not asked any more in an input mode of the older run, or is skipped there. A rule
// is kept by a result in which all its cases pass, those that are skipped left out, and one at least.
struct ResultDiff {
  std::vector<ChangedCase> lost, gained;
  std::vector<ChangedCase> others;  // fail in another way, or fail and are new
  std::vector<std::string> rules_lost, rules_gained;
  std::vector<std::string> notes;  // what makes the two hard to compare: another corpus, adapter or tzmark
};

// Throws EnvironmentError with the name of the file if a document is not such a result, of this version.
ResultDiff diff_results(const Json& before, const std::string& before_file, const Json& after,
                        const std::string& after_file);

// A command of GitHub's workflows that names what was lost; empty if nothing was.
std::string annotation_lines(const ResultDiff& diff);

// Ends with the line "N cases lost, N gained; N rules lost, N gained".
std::string text_of(const ResultDiff& diff);

}  // namespace tzmark::conformance
