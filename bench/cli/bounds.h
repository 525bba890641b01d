// What limits a result: the rate that its path and its steps allow together, measured in the same run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/rounds.h"
#include "harness/ceilings.h"

namespace tzmark::bench {

// The limit is that of the checks: on the same cores path and steps take turns, and with a device that works by
// itself the slower of the two counts. SHA-256 depends on the previous piece of its tensor, so a tensor that is most of
// a model keeps one core busy and leaves the others to the rest.
struct Bound {
  std::string rung;                 // the part that takes the most time, such as "sha256-lanes" or "path-read/direct"
  double rate = 0;                  // of the limit, in bytes per second
  double share = 0;                 // of the limit that the result reached
  std::optional<double> low, high;  // its 95 % interval, from the ratios within each round; absent below six rounds
};

// Finds the limit among the subjects measured together. Nothing for results that are not the codec's.
std::optional<Bound> bound_by(const Measured& measured, const std::vector<Measured>& all);

// What limits the SHA-256 of tensors: the largest tensor is hashed by one thread, and several by each thread if there
// are enough.
struct HashingRung {
  Rung rung = Rung::kSha256;
  unsigned threads = 1;
};
HashingRung hashing_rung(unsigned threads, std::uint64_t bytes, std::uint64_t largest_tensor_bytes);

}  // namespace tzmark::bench
