// Seeded noise of repeated runs: how much slower each process is than its build, and each sample than its process.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tzmark::bench::simulation {

enum class RunNoise {
  kGaussian,     // 1 % between processes, 5 % within
  kHeavyTailed,  // 1 % and 4 %, both of Student's t with 2.5 degrees of freedom
  kDrifting,     // as Gaussian; all rows drift together by a random walk of 2 % per process
  kBimodal,      // as Gaussian; each process is in one of two modes 6 % apart
  kBetweenRuns,  // 3 % between processes, 5 % within
  kReal,         // resampled from processes that ran one after the other on a busy machine
};

inline std::string_view name_of(RunNoise noise) {
  switch (noise) {
    case RunNoise::kGaussian:
      return "Gaussian, 1 % between runs";
    case RunNoise::kHeavyTailed:
      return "heavy tails";
    case RunNoise::kDrifting:
      return "drifting";
    case RunNoise::kBimodal:
      return "bimodal runs, 6 % apart";
    case RunNoise::kBetweenRuns:
      return "3 % between runs";
    case RunNoise::kReal:
      break;
  }
  return "real runs, resampled";
}

// Logarithms of rates of real runs: by row, by process in the order of time, by sample.
using RealRuns = std::vector<std::vector<std::vector<double>>>;

// The processes of one comparison in the order of time. For one thread at a time.
class RunSource {
 public:
  RunSource(RunNoise noise, std::size_t rows, const RealRuns& real, std::mt19937_64& random)
      : noise_(noise), real_(real), random_(random) {
    if (noise_ != RunNoise::kReal) return;
    for (std::size_t row = 0; row < rows; ++row) real_rows_.push_back(random_() % real_.size());
  }

  // Begins a pair of processes that run one after the other. One of them has to be taken for each side.
  void begin_pair() {
    if (noise_ == RunNoise::kReal) {
      const std::size_t processes = real_.front().size() / 2 * 2;
      pair_ = random_() % (processes / 2) * 2;
      first_ = random_() % 2;
    }
  }

  // Begins the next process of a pair. The order within it is random.
  void begin_process() {
    if (noise_ == RunNoise::kDrifting) drift_ += 0.02 * normal();
    process_ = pair_ + first_;
    first_ = 1 - first_;
  }

  // Returns the logarithms of the rates of a row in the current process.
  std::vector<double> samples(std::size_t row, std::size_t count) {
    if (noise_ == RunNoise::kReal) return real_[real_rows_[row]][process_];
    double own = drift_;
    if (noise_ == RunNoise::kHeavyTailed) {
      own += 0.01 * student();
    } else {
      own += (noise_ == RunNoise::kBetweenRuns ? 0.03 : 0.01) * normal();
    }
    if (noise_ == RunNoise::kBimodal && random_() % 2 == 0) own -= 0.06;
    std::vector<double> values(count);
    const bool heavy = noise_ == RunNoise::kHeavyTailed;
    std::ranges::generate(values, [&] { return own + (heavy ? 0.04 * student() : 0.05 * normal()); });
    return values;
  }

  double normal() { return std::normal_distribution<double>()(random_); }
  bool coin() { return random_() % 2 == 0; }

 private:
  double student() { return std::student_t_distribution<double>(2.5)(random_); }

  RunNoise noise_;
  const RealRuns& real_;
  std::mt19937_64& random_;
  std::vector<std::size_t> real_rows_;
  std::size_t pair_ = 0, first_ = 0, process_ = 0;
  double drift_ = 0;
};

}  // namespace tzmark::bench::simulation
