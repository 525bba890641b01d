// Where a Python program that this one runs may import from.
#pragma once

namespace tzmark {

// Takes the entries away from the environment variable PYTHONPATH that depend on the current directory, which may hold
// files of others: relative ones, and empty ones, which are the current directory itself.
// REQUIRES: no other thread uses the environment.
void keep_python_from_current_directory();

}  // namespace tzmark
