// Laps, tries and the log; see engine.h.
#include "measure/engine.h"

#include <algorithm>
#include <exception>
#include <new>

namespace tzmark::bench {

bool means_wrong_bytes(const Error& error) {
  return error.code() == ErrorCode::kFileChanged || error.error_class() == ErrorClass::kFile;
}

SourceFailure failure_now() {
  try {
    throw;
  } catch (const Error& error) {
    if (means_wrong_bytes(error)) throw;
    return {error.what(), error.message(), error.error_class() != ErrorClass::kUnavailable};
  } catch (const std::bad_alloc&) {
    return {"out of memory", "out of memory", true};
  } catch (const std::exception& error) {
    return {error.what(), error.what(), true};
  }
}

void Source::leave_out(std::size_t /*source*/, const SourceFailure& /*failure*/) { throw; }

const LapSample& Lap::of(std::size_t source) const { return *std::ranges::find(samples, source, &LapSample::source); }

void SampleLog::add(const Lap& lap) {
  for (const LapSample& sample : lap.samples) {
    entries_.push_back({sample.source, sample.seconds_per_byte, lap.result});
    Lengths& lengths = lengths_[sample.source];
    lengths.sum += sample.length;
    ++lengths.samples;
  }
}

double SampleLog::mean_length_ns(std::size_t source) const {
  const auto found = lengths_.find(source);
  if (found == lengths_.end()) return 0;
  return static_cast<double>(found->second.sum.count()) / static_cast<double>(found->second.samples);
}

std::chrono::nanoseconds StoppingRule::rest() const {
  if (is_stopped()) return std::chrono::nanoseconds(0);
  return end ? *end - now() : std::chrono::nanoseconds::max();
}

void Engine::run(const Schedule& schedule) {
  while (rule_.rest().count() > 0) {
    const std::vector<std::size_t> order = schedule.next();
    if (order.empty()) return;
    const Lap lap = take(order);
    if (schedule.conclude) schedule.conclude(lap);
  }
}

Lap Engine::take(const std::vector<std::size_t>& order) {
  Lap lap;
  for (const std::size_t source : order) {
    std::optional<LapSample> sample;
    if (rule_.is_stopped()) {
      lap.result = LapResult::kInterrupted;
    } else if (sample = try_sample(source); !sample) {
      lap.result = LapResult::kFailed;
    }
    if (!sample) break;
    lap.disturbance += sample->disturbance;
    lap.samples.push_back(*sample);
  }
  if (lap.result == LapResult::kCounts) {
    if (counted_ == Failures::kInARow) {
      for (const std::size_t source : order) failures_.erase(source);
    }
    filter_.add(lap.disturbance);
    if (!filter_.counts(lap.disturbance)) lap.result = LapResult::kDisturbed;
  }
  log_.add(lap);
  return lap;
}

// Returns nothing after a failure that cannot be tried again now.
std::optional<LapSample> Engine::try_sample(std::size_t source) {
  const auto begin = rule_.now();
  for (;;) {
    try {
      const SourceSample taken = source_.take(source);
      return LapSample{source, taken.seconds_per_byte, taken.disturbance, rule_.now() - begin};
    } catch (...) {
      const SourceFailure failure = failure_now();
      source_.note_failure(source, failure);
      if (!failure.has_failed || ++failures_[source] >= tries_) {
        source_.leave_out(source, failure);
        return {};
      }
      if (!source_.can_retry(source)) return {};
    }
  }
}

}  // namespace tzmark::bench
