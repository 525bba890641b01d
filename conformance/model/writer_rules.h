// What FORMAT.md asks of writers beyond what readers check.
//
// Thread-safety: a pure function, but for the notes that it is given.
#pragma once

#include "reading.h"

namespace tzmark::conformance::model {

// REQUIRES: every check of readers was made, and none found a defect of structure.
void check_writer_rules(Bytes file, const Record& file_header, const Reading& reading, Notes& notes);

}  // namespace tzmark::conformance::model
