// SHA-256 of several messages next to each other on one core: the kernels of this machine, a plan that says which one
// runs for how many messages, and feeding messages by a plan. Thread-safe.
//
// Measured on one core of a Xeon with SHA-NI and AVX-512 (Sapphire Rapids), GB/s from L2: OpenSSL 2.0, SHA-NI 2.4 with
// 2 messages and no more with 4, AVX2 1.6, AVX-512 3.2 with 8 and 4.3 with 16. Ice Lake gains nothing from
// interleaving, Zen 5 75 %, and Zen 2 loses with AVX2; so a plan is made from a measurement, not from the CPU's flags.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "simd/sha256_kernels.h"
#include "tzmark/digest.h"

namespace tzmark::simd {

inline constexpr unsigned kMaxSha256Lanes = 16;

struct Sha256Kernel {
  std::string_view name;  // what TZMARK_SIMD calls it
  unsigned lanes = 0;
  CompressSha256 compress = nullptr;
};

// Returns the kernels that the CPU and the operating system support, those of one name together and ascending by
// lanes. The first is OpenSSL, with one lane and the name "none".
std::span<const Sha256Kernel> sha256_kernels();

// Says which kernel runs for how many live messages.
class Sha256Plan {
 public:
  struct Step {
    Sha256Kernel kernel;
    unsigned messages = 0;  // 1 to kernel.lanes; other lanes compute unused results
  };

  // Uses `single` for one message alone, and for more the narrowest of `kernels` that holds them, or the widest.
  // REQUIRES: kernels is not empty, and ascends by lanes.
  static Sha256Plan forced(const Sha256Kernel& single, std::span<const Sha256Kernel> kernels);

  // Uses for each number of messages what has the highest rate. seconds: of each kernel, per block in every lane.
  static Sha256Plan fastest(std::span<const Sha256Kernel> kernels, std::span<const double> seconds);

  // Returns what to run next while so many messages live. REQUIRES: live > 0.
  const Step& step(std::size_t live) const { return steps_[live < steps_.size() ? live - 1 : steps_.size() - 1]; }
  std::string_view name() const { return steps_.back().kernel.name; }
  unsigned lanes() const { return steps_.back().messages; }
  // kFewLanes if so many messages reach kFewLanesRate of the rate of lanes(); otherwise, or if it is less, lanes().
  unsigned few_lanes() const { return few_lanes_; }

 private:
  // A fixed number, because a choice between two whose rates are about equal would change from process to process.
  static constexpr unsigned kFewLanes = 4;
  static constexpr double kFewLanesRate = 0.7;

  std::array<Step, kMaxSha256Lanes> steps_;  // of 1, 2 ... messages
  unsigned few_lanes_ = 1;
};

// Measures each kernel over data in the L1 cache, in less than a millisecond: seconds per block in every lane.
std::vector<double> measure_sha256(std::span<const Sha256Kernel> kernels);

// Makes the plan that the value of TZMARK_SIMD asks for, nothing if it is not set. kernels: as sha256_kernels() returns
// them. Throws Error kUsage if it names no kernel, kUnavailable if kernels lacks it.
Sha256Plan make_sha256_plan(std::optional<std::string_view> forced, std::span<const Sha256Kernel> kernels);

// Returns the plan of this process, made at the first call. Throws as make_sha256_plan.
const Sha256Plan& sha256_plan();

// tzmark::update_side_by_side by this plan.
void update_side_by_side(const Sha256Plan& plan, std::span<const Sha256Part> parts);

}  // namespace tzmark::simd
