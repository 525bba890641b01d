// Runs subjects in rounds: each once a round, in an order that is drawn anew each time.
//
// Machines drift, so what is compared has to be measured side by side; ratios are taken within a round.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/statistics.h"
#include "subjects/subject.h"

namespace tzmark::bench {

// A subject and what its runs gave, one sample a round. Without samples, why says what kept it from being measured.
struct Measured {
  std::unique_ptr<Subject> subject;
  std::vector<Sample> samples;
  std::string why;

  // Bytes per second of each round.
  std::vector<double> rates() const;
  // The fsync included. REQUIRES: a write.
  std::vector<double> durable_rates() const;
};

struct RoundOptions {
  unsigned rounds = 7;
  std::uint64_t seed = 1;
  // Told what is done next, for people.
  std::function<void(const std::string& what)> progress;
};

// Verifies each subject, then runs the rounds. A subject that lacks something on this machine is left out of what
// follows and says why. Any other error is thrown: what moves wrong bytes is not timed.
void run_rounds(std::vector<Measured>& subjects, const RoundOptions& options);

}  // namespace tzmark::bench
