// Gives a tensor of a draft another shape or type, and as much data as that needs.
//
// Thread-safety: pure functions of their arguments.
#pragma once

#include <string>
#include <vector>

#include "mutation/draft.h"

namespace tzmark::conformance::mutation {

// Data is cut, or filled up with zeros up to a MiB. Where it had too many bytes or too few for its shape, it has as
// many too many or too few as before; a meta tensor stays one.
void reshape(DraftTensor& tensor, std::vector<std::uint64_t> shape, std::string dtype);

// One element, or none where there was none.
void reshape_to_least(DraftTensor& tensor);

}  // namespace tzmark::conformance::mutation
