// Rounds of subjects in random order; see rounds.h.
#include "cli/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <set>

#include "harness/shortages.h"

namespace tzmark::bench {
namespace {

// Runs a step of a subject. Wrong bytes are thrown with its id.
template <typename Step>
void run_step(const Measured& measured, const Step& step) {
  try {
    step();
  } catch (const Error& error) {
    if (!means_wrong_bytes(error)) throw;
    throw Error(error.code(), measured.description().id() + ": " + error.message());
  }
}

void leave_out(Measured& measured, const SourceFailure& failure) {
  measured.why = failure.why;
  measured.has_failed = failure.has_failed;
}

// Removes what an interrupted round has measured, except if there is nothing else, and what failed later.
void keep_finished_rounds(std::vector<Measured>& subjects, unsigned finished) {
  for (Measured& measured : subjects) {
    if (!measured.why.empty()) measured.samples.clear();
    if (finished > 0 && measured.samples.size() > finished) measured.samples.resize(finished);
    note_interruption(measured);
  }
}

std::vector<double> rates_of(const Measured& measured, bool durable) {
  std::vector<double> rates;
  const auto bytes = static_cast<double>(measured.description().bytes);
  for (const Sample& sample : measured.samples) {
    const std::uint64_t sync_ns = durable ? sample.sync_ns.value_or(0) : 0;
    rates.push_back(bytes * 1e9 / static_cast<double>(sample.elapsed_ns + sync_ns));
  }
  return rates;
}

}  // namespace

void note_interruption(Measured& measured) {
  if (measured.samples.empty() && measured.why.empty()) measured.why = "interrupted before it was measured";
}

std::vector<double> Measured::rates() const { return rates_of(*this, false); }
std::vector<double> Measured::durable_rates() const { return rates_of(*this, true); }

void verify_subject(Measured& measured, const std::function<void(const std::string& what)>& progress) {
  if (!measured.why.empty()) return;
  if (progress) progress("verify " + measured.description().id());
  try {
    run_step(measured, [&] { measured.subject->verify(); });
  } catch (...) {
    leave_out(measured, failure_now());
  }
}

void verify_subjects(std::vector<Measured>& subjects, const std::function<void(const std::string& what)>& progress,
                     const std::function<bool()>& stop) {
  std::set<std::string> ids;
  for (Measured& measured : subjects) {
    if (stop && stop()) return;
    verify_subject(measured, progress);
    if (!measured.why.empty() || measured.description().subject == "ceiling") continue;
    // Two settings may be one, once the path has chosen what was not given.
    if (!ids.insert(measured.description().id()).second) measured.why = "measured already: another setting is the same";
  }
}

void take_sample(Measured& measured) {
  const ShortageWatch shortages;
  const DisturbanceWatch disturbance;
  static const auto start = std::chrono::steady_clock::now();
  const auto began = std::chrono::steady_clock::now();
  Sample sample = measured.subject->run();
  sample.disturbance = disturbance.stop(sample.user_elsewhere_ns);
  sample.transfers_in_place = shortages.finish();
  sample.began_ns = static_cast<std::uint64_t>((began - start) / std::chrono::nanoseconds(1));
  measured.samples.push_back(sample);
}

SourceSample SubjectSource::take(std::size_t i) {
  Measured& measured = subjects_[i];
  run_step(measured, [&] { take_sample(measured); });
  Sample& sample = measured.samples.back();
  sample.position = position_++;
  const auto elapsed_ns = static_cast<double>(sample.elapsed_ns + sample.sync_ns.value_or(0));
  const auto bytes = static_cast<double>(std::max<std::uint64_t>(1, measured.description().bytes));
  return {elapsed_ns / 1e9 / bytes, sample.disturbance};
}

void SubjectSource::leave_out(std::size_t i, const SourceFailure& failure) { bench::leave_out(subjects_[i], failure); }

unsigned run_rounds(std::vector<Measured>& subjects, const RoundOptions& options) {
  verify_subjects(subjects, options.progress, options.stop);
  std::vector<std::size_t> order(subjects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(options.seed);
  unsigned round = 0;
  std::size_t at = 0;
  // A lap is one sample, so that a round may end early. All of them count: results state what disturbed each.
  const auto next = [&]() -> std::vector<std::size_t> {
    for (; round < options.rounds; ++round, at = 0) {
      if (at == 0) std::ranges::shuffle(order, random);
      while (at < order.size()) {
        const std::size_t i = order[at++];
        if (!subjects[i].why.empty()) continue;
        if (options.progress) {
          options.progress(fmt::format("round {} of {}, {} of {}: {}", round + 1, options.rounds, at, order.size(),
                                       subjects[i].description().id()));
        }
        return {i};
      }
    }
    return {};
  };
  SubjectSource source(subjects);
  DisturbanceFilter filter;
  Engine(source, filter, {.stop = options.stop}, 1).run({next});
  if (round < options.rounds && at == order.size()) ++round;
  keep_finished_rounds(subjects, round);
  return round;
}

}  // namespace tzmark::bench
