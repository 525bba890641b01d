// What a tuning run found, for its document and its summary.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/tune/task.h"
#include "harness/sequential.h"
#include "harness/statistics.h"
#include "harness/steady_state.h"
#include "tune/advice.h"
#include "tune/ceiling_verdict.h"
#include "tune/cost_model.h"
#include "tune/exports.h"
#include "tune/probe.h"
#include "tune/search.h"

namespace tzmark::bench {

struct CeilingOutcome {
  std::vector<std::pair<std::string, Interval>> measured;  // "codec" first
  std::optional<CeilingVerdict> verdict;
};

struct SustainedOutcome {
  double duration_s = 0;
  ThroughputSeries series;
  SteadyState state;
  std::optional<double> began_s;  // when the rate fell for good
  std::string text;
};

struct ModelPoint {
  std::string workload;
  CostPoint cost;
};

struct AdviceOutcome {
  Advice advice;
  std::optional<RatioInterval> effect;
};

struct PredictionOutcome {
  std::string workload;
  TuneTask task = TuneTask::kLoadCold;
  std::uint64_t tensors = 0, bytes = 0;
  CostPrediction time;
};

struct TaskOutcome {
  TuneTask task = TuneTask::kLoadCold;
  std::chrono::nanoseconds elapsed{};
  SearchResult search;
  CeilingOutcome ceiling;
  std::optional<SustainedOutcome> sustained;
  std::vector<ModelPoint> points;
  std::optional<CostModel> model;

  const TunedSetting* recommended() const {
    return search.recommended ? &search.settings[*search.recommended] : nullptr;
  }
};

// A task, or a part of one, that could not be measured here.
struct SkippedTask {
  TuneTask task = TuneTask::kLoadCold;
  std::string reason;
};

struct TuneOutcome {
  std::string url;  // of the file on a server, to be shown; empty for a directory, of which probe tells
  std::string workload_name, workload_label;
  std::uint64_t bytes = 0, tensors = 0;
  Probe probe;
  std::vector<TaskOutcome> tasks;
  std::vector<SkippedTask> skipped;
  std::vector<AdviceOutcome> advice;
  std::vector<PredictionOutcome> predictions;
  std::vector<Export> exports;
  std::vector<std::string> warnings;
  bool is_complete = false;
};

// What a search does next, for a person: "save: search, rung 3: 12 settings, best 1.25 GB/s".
std::string search_line(TuneTask task, const SearchProgress& progress);

// Rates of samples: bytes per second.
std::vector<double> rates_of(const std::vector<TuneSample>& samples);

}  // namespace tzmark::bench
