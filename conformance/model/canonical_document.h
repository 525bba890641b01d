// The content of a file as canonical JSON.
//
// Thread-safety: a pure function.
#pragma once

#include <string>
#include <vector>

#include "model/reading.h"

namespace tzmark::conformance::model {

// `data_sha256` has the hash of each tensor's plaintext, as far as there is data.
Json canonical_document(const Reading& reading, const std::vector<std::optional<std::string>>& data_sha256);

}  // namespace tzmark::conformance::model
