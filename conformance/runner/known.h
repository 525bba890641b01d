// Known failures: a list of cases that are expected to fail, so that a run fails only when something changes.
//
// The list cannot go stale. A case on it that passes, fails in another way or is not in the corpus any more is a
// problem of its own.
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
  std::string outcome;  // as reports spell it
  std::string reason;   // for people
};

// Throws EnvironmentError if the file cannot be read or is not such a list; names no case twice.
std::vector<KnownFailure> load_known(const std::filesystem::path& file);

// Writes the list, one case a line. Throws EnvironmentError.
void save_known(const std::filesystem::path& file, const std::vector<KnownFailure>& known);

// Marks the results that fail as the list says, and returns what is wrong with the list, one line each. Cases that were
// not selected say nothing.
std::vector<std::string> apply_known(const std::vector<KnownFailure>& known, const Manifest& manifest,
                                     std::vector<CaseResult>& results);

// The list that these results agree with. Reasons are kept, unless the outcome has changed; of new failures they are
// what the suite saw. Cases that were not selected stay.
std::vector<KnownFailure> fix_known(const std::vector<KnownFailure>& known, const Manifest& manifest,
                                    const std::vector<CaseResult>& results);

}  // namespace tzmark::conformance
