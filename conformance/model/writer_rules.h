// Checks the rules of FORMAT.md that bind only writers.
//
// Thread-safety: a pure function, but for the notes that it is given.
#pragma once

#include "model/reading.h"

namespace tzmark::conformance::model {

// REQUIRES: every tensor was read completely, and in v1 to v4 the terminator.
void check_writer_rules(Bytes file, const ParsedStructure& file_header, const Reading& reading, Notes& notes);

}  // namespace tzmark::conformance::model
