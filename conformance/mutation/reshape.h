// Changes the shape or type of a tensor of a draft, and fits its data.
//
// Thread-safety: pure functions of their arguments.
#pragma once

#include <string>
#include <vector>

#include "mutation/draft.h"

namespace tzmark::conformance::mutation {

// Cuts data, or fills it with zeros up to a MiB. If its size did not match its shape, the difference stays; a meta
// tensor stays one.
void reshape(DraftTensor& tensor, std::vector<std::uint64_t> shape, std::string dtype);

// One element, or none if there was none.
void reshape_to_least(DraftTensor& tensor);

}  // namespace tzmark::conformance::mutation
