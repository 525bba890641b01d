// Planted bugs: readers that check a rule, or one clause of it, only here and there. Each is a place (a rule or a
// clause) and a condition under which the check is left out or weakened.
//
// Thread-safety: pure functions and values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planted_bugs/event.h"

namespace tzmark::conformance::planted {

using Misses = std::function<bool(const Event&)>;

struct Bug {
  std::string rule;
  std::string clause;     // empty: the whole rule
  std::string condition;  // what the reader does instead
  Misses misses;          // whether the reader with this bug does not notice the defect

  std::string name() const { return rule + (clause.empty() ? "" : ", " + clause) + ": " + condition; }
};

// All of them, in the order of the rules. Names are unique.
std::vector<Bug> planted_bugs();

// How many clauses the defect belongs to. The tables are right if it is always one.
std::size_t clauses_of(const model::Defect& defect);

}  // namespace tzmark::conformance::planted
