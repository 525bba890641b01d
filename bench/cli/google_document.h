// Results in the JSON of Google Benchmark, which its compare.py, Bencher and github-action-benchmark read.
//
// Each round of a subject is a repetition of one iteration; the aggregates mean, median and stddev follow. A subject
// that was not measured is an entry with error_occurred, as from Google Benchmark itself.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/rounds.h"

namespace tzmark::bench {

class GoogleDocument {
 public:
  // command: the command line, for the context.
  explicit GoogleDocument(const std::vector<std::string>& command);

  // Adds subjects that were measured together.
  void add(const std::vector<Measured>& measured);
  // REQUIRES: not called before.
  nlohmann::json finish() { return std::move(json_); }

 private:
  nlohmann::json json_;
  std::size_t families_ = 0;
};

}  // namespace tzmark::bench
