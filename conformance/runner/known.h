// Known failures: a list of cases that are expected to fail, so that a run fails only if something changes.
// The list cannot go stale: a listed case that passes, fails in another way or has left the corpus is an error.
//
// Thread-safety: values; the functions read and write files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/manifest.h"
#include "runner/suite.h"

namespace tzmark::conformance {

struct KnownFailure {
  std::string id;
  std::string outcome;  // as in reports
  std::string reason;   // for people
};

// Throws EnvironmentError if the file cannot be read, is not such a list, or names a case twice.
std::vector<KnownFailure> load_known(const std::filesystem::path& file);

// Writes the list, one case per line. Throws EnvironmentError.
void save_known(const std::filesystem::path& file, const std::vector<KnownFailure>& known);

// Marks the results that fail as listed, and returns the errors of the list, one line each. Cases that were not
// selected are not checked.
std::vector<std::string> apply_known(const std::vector<KnownFailure>& known, const Manifest& manifest,
                                     std::vector<CaseResult>& results);

// Returns the list that matches these results. Keeps reasons unless the outcome has changed; those of new failures come
// from the run. Keeps cases that were not selected.
std::vector<KnownFailure> fix_known(const std::vector<KnownFailure>& known, const Manifest& manifest,
                                    const std::vector<CaseResult>& results);

}  // namespace tzmark::conformance
