// The errors of a run that say nothing about the adapter.
//
// Thread-safety: exceptions are values.
#pragma once

#include <stdexcept>

namespace tzmark::conformance {

// The run cannot start or cannot be trusted: corpus missing or changed, adapter not startable, file not writable.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Invalid arguments.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// This machine lacks what an option requires.
class UnavailableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tzmark::conformance
