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
#include "measure/engine.h"
#include "subjects/subject.h"

namespace tzmark::bench {

// What a subject did in the time of tzmark bench soak.
struct LongRun {
  std::vector<TimedOperation> operations;  // until the data of a write is durable
  Disturbance disturbance;                 // of all operations and their preparations
};

// A subject and its samples, one per round. Without samples, why holds the reason.
struct Measured {
  std::unique_ptr<Subject> subject;
  std::vector<Sample> samples;
  std::string why;
  std::optional<LongRun> long_run = std::nullopt;  // of tzmark bench soak; the samples are some of its operations
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
  std::function<void(const std::string& what)> progress = {};
  // Asked before each step, which is a sample at most; ends the rounds. May be empty.
  std::function<bool()> stop = {};
};

// Verifies a subject, unless it is left out already. If it fails or needs something that this machine lacks, it is left
// out from there on, with the reason in why, and has_failed if it failed. Throws for wrong bytes.
void verify_subject(Measured& measured, const std::function<void(const std::string& what)>& progress);
// Verifies all of them, as long as stop, which may be empty, returns false.
void verify_subjects(std::vector<Measured>& subjects, const std::function<void(const std::string& what)>& progress,
                     const std::function<bool()>& stop = {});

// Runs the subject once and appends the sample. Throws what the subject throws.
void take_sample(Measured& measured);

// Subjects, named by their index. A sample is appended to those of its subject, with its position among all. Keeps a
// reference to the subjects.
class SubjectSource final : public Source {
 public:
  explicit SubjectSource(std::vector<Measured>& subjects, std::uint64_t first_position = 0)
      : subjects_(subjects), position_(first_position) {}

  SourceSample take(std::size_t i) override;
  // Sets why and has_failed; the samples stay.
  void leave_out(std::size_t i, const SourceFailure& failure) override;

 private:
  std::vector<Measured>& subjects_;
  std::uint64_t position_;
};

// Verifies each subject, then runs the rounds, and returns how many of them were finished. A subject that fails or
// needs something that this machine lacks is left out from there on, and its why gives the reason. Throws for wrong
// bytes. A round that stop ends does not count, unless it is the first: then each subject keeps the sample that it has.
unsigned run_rounds(std::vector<Measured>& subjects, const RoundOptions& options);

// States that a subject without samples was not reached before an interruption.
void note_interruption(Measured& measured);

}  // namespace tzmark::bench
