// The first Ctrl-C ends a measurement early, so that what was measured is kept; the second one ends the program.
#pragma once

namespace tzmark::bench {

// Thrown between two steps of a measurement after the first signal.
struct Interrupted {};

// While one exists, the first SIGINT or SIGTERM only leaves a mark. Handlers from before meet the next one, unless it
// comes within 0.2 s. One object at a time; construct it after a RemovedDirectory, whose handler removes the files.
// Signals that are ignored stay so.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // The signal that arrived; 0 if none did. Async-signal-safe.
  static int number();
  // Throws Interrupted if a signal arrived.
  static void check();
};

}  // namespace tzmark::bench
