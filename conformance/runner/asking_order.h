// The order in which the cases of a run are asked.
//
// Thread-safety: a pure function.
#pragma once

#include <cstddef>
#include <vector>

#include "runner/manifest.h"

namespace tzmark::conformance {

// Positions of cases. What lies in one vector is asked of one process without another case in between: a case, or those
// of a sequence in their order. Valid and invalid files alternate at random, always in the same way, so that what a
// reader keeps from a file, and above all from one that it rejects, meets files of every kind.
std::vector<std::vector<std::size_t>> asking_order(const std::vector<Case>& cases);

}  // namespace tzmark::conformance
