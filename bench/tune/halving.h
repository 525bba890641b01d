// Successive halving over the space: many settings briefly, the better half longer, with the neighbors of the best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tune/estimates.h"
#include "tune/sampler.h"
#include "tune/space.h"

namespace tzmark::bench {

// Settings are named by their index in the space; the standard one is 0. For one thread at a time.
class Halving {
 public:
  Halving(Sampler& sampler, const Space& space, Estimates& estimates, std::mt19937_64& random);

  // Spends the search's part of the budget, or less if noise separates all others from the best.
  void run();
  // Finds settings with less bytes in flight that lose at most this logarithm of a ratio against the fastest. Returns
  // the one with the least. REQUIRES: finalists() is not empty.
  std::size_t find_least_in_flight(double loss);

  // Those that reached the last rung, the fastest first, with as many samples each; empty if there was no time for one.
  const std::vector<std::size_t>& finalists() const { return finalists_; }
  std::size_t last_rung_samples() const { return last_rung_samples_; }
  // Whether the settings that the search began with differ by more than noise.
  bool settings_differ() const;

 private:
  void start(double part_end);
  std::size_t plan_last_rung() const;
  // Takes samples in rounds until each of these has n.
  void fill(std::span<const std::size_t> chosen, std::size_t n);
  void sample(std::size_t setting);
  void climb(std::size_t n, double part_end);
  std::vector<std::size_t> neighbors_of_front(std::size_t n, std::size_t limit);
  enum class Against { kPath, kAll };
  std::vector<std::size_t> race(std::vector<std::size_t> candidates, std::size_t n, double part_end, double loss,
                                Against against);
  void drop_behind(std::vector<std::size_t>& candidates, double loss, Against against) const;
  void halve(std::size_t keep_max);
  std::vector<std::size_t> with_less_in_flight(std::size_t than, double loss) const;
  void conclude_rung(std::size_t n);

  std::vector<std::size_t> ranked() const;
  std::vector<std::size_t> best_of_paths(std::size_t each) const;
  std::uint64_t bytes_in_flight(std::size_t setting) const { return sampler_.setting(setting).bytes_in_flight(); }
  bool is_sampled(std::size_t setting) const { return estimates_.count(setting) > 0 && sampler_.is_eligible(setting); }

  Sampler& sampler_;
  const Space& space_;
  Estimates& estimates_;
  std::mt19937_64& random_;
  double phase_end_ = 0;  // part of the budget
  std::string what_;      // for the progress
  std::vector<std::size_t> start_, pool_, finalists_;
  std::vector<std::size_t> raced_in_;  // by setting: samples of the rung in which it was last considered
  std::size_t last_rung_samples_ = 0;
};

}  // namespace tzmark::bench
