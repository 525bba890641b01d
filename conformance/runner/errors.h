// The ways in which a run of the suite can fail without saying anything about the adapter's answers.
//
// Thread-safety: exceptions are values.
#pragma once

#include <stdexcept>

namespace tzmark::conformance {

// The run cannot be trusted or cannot begin: corpus missing or changed, adapter not startable, file not writable.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The caller asked for something that cannot be asked.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// This machine lacks what an option needs.
class UnavailableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tzmark::conformance
