// Readers that leave out a check at one place in a file and make it everywhere else, or that check what all tensors
// have together instead of what each of them has.
//
// Thread-safety: pure functions.
#pragma once

#include "planted_bugs/clauses.h"
#include "planted_bugs/weak_checks.h"

namespace tzmark::conformance::planted {

// The places that make a difference for a rule and each of its clauses: the first of several tensors, the last, a file
// of one tensor, one kind of tensor.
Weaks places_of(const Rule& rule);

// What else makes a difference for a rule: which tensors are compared with each other, what is compared of all of them
// only, a later page of the index, one end of a list.
Weaks togethers_of(const Rule& rule);

}  // namespace tzmark::conformance::planted
