// Implements put_together() of consistent.h; take_apart() uses it, too.
//
// Thread-safety: a pure function.
#pragma once

#include "mutation/consistent.h"

namespace tzmark::conformance::mutation {

// Without sealing, hashes are what they were, and data is neither hashed nor encrypted.
std::vector<std::byte> put_together(const Draft& draft, bool sealing, std::vector<Site>* sites);

}  // namespace tzmark::conformance::mutation
