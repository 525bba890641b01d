// The canonical JSON of a file's content: what `tzmark dump` prints and what decoders under test are compared by.
#pragma once

#include <string>

#include "tzmark/reader.h"

namespace tzmark {

// Reads all data: checks structure, headers and MACs, but not the hashes that the file stores. One line a tensor.
std::string canonical_json(const Reader& reader);

}  // namespace tzmark
