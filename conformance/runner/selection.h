// Which cases of a corpus to run.
//
// Thread-safety: values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "runner/manifest.h"

namespace tzmark::conformance {

// Whether its file is larger than 64 KiB. Few cases are, and they take a good part of the time of a run.
bool is_large(const Case& item);

// Empty lists mean all.
struct Selection {
  // Shell patterns. The id must match one of them, and none of those that begin with an exclamation mark.
  std::vector<std::string> ids;
  std::vector<std::string> layouts;  // the layout must be one of these
  std::vector<std::string> rules;    // the case must be about one of these
  bool quick = false;                // no large case
};

// Throws UsageError, with the nearest name, for a pattern that matches no case, an unknown layout, and an unknown rule.
// The result may be empty: each part matches some case, but no case matches all.
std::vector<Case> select_cases(const Manifest& manifest, const Selection& selection);

// The case of this id. Throws UsageError, with the nearest id, if there is none.
const Case& find_case(const Manifest& manifest, const std::string& id);

}  // namespace tzmark::conformance
