// Runs subjects in rounds: each subject once per round, in a random order that changes every round.
//
// Machines drift, so subjects that are compared are measured in the same rounds, and ratios are taken within a round.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/statistics.h"
#include "harness/steady_state.h"
#include "subjects/subject.h"

namespace tzmark::bench {

// What a subject did in the time of --duration.
struct LongRun {
  std::vector<TimedOperation> operations;  // until the data of a write is durable
  Disturbance disturbance;                 // of all operations and their preparations
};

// A subject and its samples, one per round. Without samples, why holds the reason.
struct Measured {
  std::unique_ptr<Subject> subject;
  std::vector<Sample> samples;
  std::string why;
  std::optional<LongRun> long_run = std::nullopt;  // with --duration; the samples are some of its operations
  bool has_failed = false;                         // why is a failure, not something that this machine lacks

  const RunDescription& description() const { return subject->description(); }
  // Bytes per second of each round.
  std::vector<double> rates() const;
  // The same with the fsync included. REQUIRES: a write.
  std::vector<double> durable_rates() const;
};

struct RoundOptions {
  unsigned rounds = 7;
  std::uint64_t seed = 1;
  // Receives what is done next, for a person to read. May be empty.
  std::function<void(const std::string& what)> progress;
};

// Verifies a subject, unless it is left out already. If it needs something that this machine lacks, it is left out from
// there on, with the reason in why. Any other error is thrown: a subject that moves wrong bytes is never timed.
void verify_subject(Measured& measured, const std::function<void(const std::string& what)>& progress);
// Verifies all of them.
void verify_subjects(std::vector<Measured>& subjects, const std::function<void(const std::string& what)>& progress);

// Runs the subject once and appends the sample. Throws what the subject throws.
void take_sample(Measured& measured);

// The same, but a subject that needs something this machine lacks loses its samples, and its why gives the reason.
void take_sample_if_available(Measured& measured);

// The same, but a failure is tried again: one failed transfer must not end the comparison of all others. Returns false
// and sets why if the subject cannot run, or has_failed too if it failed three times in a row. Throws for wrong bytes
// (TZE-ENV-005).
bool try_sample(Measured& measured);

// Verifies each subject, then runs the rounds. A subject that needs something this machine lacks is left out from there
// on, and its why gives the reason. Any other error is thrown: a subject that moves wrong bytes is never timed.
void run_rounds(std::vector<Measured>& subjects, const RoundOptions& options);

}  // namespace tzmark::bench
