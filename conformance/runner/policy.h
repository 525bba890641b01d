// The answers that a run requires where the format leaves a choice to readers (--policy and --strict).
//
// Thread-safety: values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runner/manifest.h"

namespace tzmark::conformance {

class Policies {
 public:
  // Every choice stays open.
  Policies() = default;

  // settings are "NAME=accept" or "NAME=reject"; strict requires tzmark's own answer for all other choices. Throws
  // UsageError for anything else, for a choice that the manifest does not have, and for two answers to one choice.
  Policies(const Manifest& manifest, const std::vector<std::string>& settings, bool strict);

  // Requires the answer of a case whose choice is settled.
  void apply(Case& item) const;

  // The same for a file that leaves several choices: one that has to be rejected settles the case, and otherwise all
  // have to be settled.
  void apply(const std::vector<std::string>& choices, Case& item) const;

  bool strict() const { return strict_; }
  // By the names of choices.
  const std::map<std::string, Policy>& in_force() const { return in_force_; }

 private:
  bool strict_ = false;
  std::map<std::string, Policy> in_force_;
};

}  // namespace tzmark::conformance
