// Checks the rules of FORMAT.md that bind only writers.
//
// Thread-safety: a pure function, but for the notes of the reading.
#pragma once

#include "model/reading.h"

namespace tzmark::conformance::model {

// REQUIRES: every tensor was read completely and is parsed, and in v1 to v4 the terminator was read.
void check_writer_rules(Reading& reading);

}  // namespace tzmark::conformance::model
