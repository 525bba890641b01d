// Rounds of subjects in random order; see rounds.h.
#include "cli/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <numeric>
#include <random>

#include "harness/shortages.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

// Runs a step of a subject. What goes wrong ends the subject alone and is reported; only wrong bytes are thrown.
template <typename Step>
void run_step(Measured& measured, const Step& step) {
  const auto leave_out = [&](const char* why, bool has_failed) {
    measured.why = why;
    measured.has_failed = has_failed;
    measured.samples.clear();
  };
  try {
    step(measured);
  } catch (const Error& error) {
    if (means_wrong_bytes(error)) throw Error(error.code(), measured.description().id() + ": " + error.message());
    leave_out(error.what(), error.error_class() != ErrorClass::kUnavailable);
  } catch (const std::bad_alloc&) {
    leave_out("out of memory", true);
  } catch (const std::exception& error) {
    leave_out(error.what(), true);
  }
}

bool is_stopped(const std::function<bool()>& stop) { return stop && stop(); }

// Removes what an interrupted round has measured, except if there is nothing else.
void keep_finished_rounds(std::vector<Measured>& subjects, unsigned finished) {
  for (Measured& measured : subjects) {
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

bool means_wrong_bytes(const Error& error) {
  return error.code() == ErrorCode::kFileChanged || error.error_class() == ErrorClass::kFile;
}

void note_interruption(Measured& measured) {
  if (measured.samples.empty() && measured.why.empty()) measured.why = "interrupted before it was measured";
}

std::vector<double> Measured::rates() const { return rates_of(*this, false); }
std::vector<double> Measured::durable_rates() const { return rates_of(*this, true); }

void verify_subject(Measured& measured, const std::function<void(const std::string& what)>& progress) {
  if (!measured.why.empty()) return;
  if (progress) progress("verify " + measured.description().id());
  run_step(measured, [](Measured& m) { m.subject->verify(); });
}

void verify_subjects(std::vector<Measured>& subjects, const std::function<void(const std::string& what)>& progress,
                     const std::function<bool()>& stop) {
  for (Measured& measured : subjects) {
    if (is_stopped(stop)) return;
    verify_subject(measured, progress);
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

void take_sample_if_available(Measured& measured) { run_step(measured, take_sample); }

bool try_sample(Measured& measured) {
  constexpr unsigned kTries = 3;
  for (unsigned tries = 0; measured.why.empty();) {
    try {
      take_sample(measured);
      return true;
    } catch (const Error& error) {
      if (means_wrong_bytes(error)) throw;
      const bool is_failure = error.error_class() != ErrorClass::kUnavailable;
      if (is_failure && ++tries < kTries) continue;
      measured.has_failed = is_failure;
      measured.why = error.what();
    }
  }
  return false;
}

unsigned run_rounds(std::vector<Measured>& subjects, const RoundOptions& options) {
  verify_subjects(subjects, options.progress, options.stop);
  std::vector<std::size_t> order(subjects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(options.seed);
  std::uint64_t position = 0;
  for (unsigned round = 0; round < options.rounds; ++round) {
    std::ranges::shuffle(order, random);
    for (std::size_t i = 0; i < order.size(); ++i) {
      Measured& measured = subjects[order[i]];
      if (is_stopped(options.stop)) {
        keep_finished_rounds(subjects, round);
        return round;
      }
      if (!measured.why.empty()) continue;
      if (options.progress) {
        options.progress(fmt::format("round {} of {}, {} of {}: {}", round + 1, options.rounds, i + 1, order.size(),
                                     measured.description().id()));
      }
      take_sample_if_available(measured);
      if (measured.why.empty()) measured.samples.back().position = position++;
    }
  }
  return options.rounds;
}

}  // namespace tzmark::bench
