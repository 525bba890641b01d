// The canonical JSON of a file's content: what `tzmark dump` prints, and what decoders under test are compared with.
#pragma once

#include <string>

#include "tzmark/reader.h"

namespace tzmark {

// Reads all data. Checks structure, headers and MACs, but not the stored hashes. The result has one line per tensor.
// Throws as Reader::scan does.
std::string canonical_json(const Reader& reader);

}  // namespace tzmark
