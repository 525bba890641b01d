// What a thread calls while it waits for another machine, about four times a second; see set_wait_check in tzmark/io.h.
#pragma once

namespace tzmark {

// Throws what the check throws.
void check_wait();

}  // namespace tzmark
