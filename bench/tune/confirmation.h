// Compares few settings on new files, in laps: one sample of each, in random order. Ratios are decided by ranks, for
// which many laps tell more than half as many with two samples each.
#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <vector>

#include "harness/sequential.h"
#include "tune/sampler.h"

namespace tzmark::bench {

// Settings are named by their index in the space. For one thread at a time.
class Confirming {
 public:
  enum class Question {
    kFaster,    // whether `setting` is faster than `against`, if that can be by more than the indifference
    kNoSlower,  // whether it loses no more than the indifference
  };
  struct Comparison {
    std::size_t setting, against;
    Question question;
    SequentialRatio ratio;
  };

  Confirming(Sampler& sampler, std::mt19937_64& random) : sampler_(sampler), random_(random) {}

  // Does nothing if both are the same.
  void ask(std::size_t setting, std::size_t against, Question question);
  // Runs laps until all questions are answered or the budget is spent. Answers keep their confidence together.
  void run();

  const std::vector<Comparison>& comparisons() const { return comparisons_; }
  // Nothing if it was not asked.
  std::optional<RatioInterval> ratio(std::size_t setting, std::size_t against) const;
  // Whether every question has an answer, or as much of one as laps_max allows.
  bool is_complete() const { return is_complete_; }

 private:
  bool is_answered(const Comparison& comparison) const;
  std::vector<std::size_t> subjects() const;
  void conclude(const Lap& lap);

  Sampler& sampler_;
  std::mt19937_64& random_;
  std::vector<Comparison> comparisons_;
  bool is_complete_ = false;
};

}  // namespace tzmark::bench
