// What tests find in the environment that CTest gives them.
//
// Thread-safety: reads the environment; safe while no thread changes it.
#pragma once

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace tzmark::conformance {

inline const std::atomic<bool> kNotCancelled = false;

inline std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  if (!value) throw std::runtime_error(std::string(name) + " is not set: run the tests through ctest");
  return value;
}

// The interpreter that the build found, which has what the reports need.
inline std::string python_program() { return environment_variable("TZMARK_PYTHON"); }

// The command of testdata/fake_adapter.py with these options.
inline std::vector<std::string> fake_adapter(const std::vector<std::string>& options = {}) {
  std::vector<std::string> argv = {
      python_program(), "-I",
      environment_variable("TZMARK_SOURCE_DIR") + "/conformance/runner/testdata/fake_adapter.py"};
  argv.insert(argv.end(), options.begin(), options.end());
  return argv;
}

}  // namespace tzmark::conformance
