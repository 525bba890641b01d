// Rounds of subjects in random order; see rounds.h.
#include "cli/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "harness/shortages.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

// Runs a step of a subject. A missing path or peer ends the subject and is reported; anything else is thrown.
template <typename Step>
void run_step(Measured& measured, const Step& step) {
  try {
    step(*measured.subject);
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::kUnavailable) throw;
    measured.why = error.what();
    measured.samples.clear();
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

std::vector<double> Measured::rates() const { return rates_of(*this, false); }
std::vector<double> Measured::durable_rates() const { return rates_of(*this, true); }

void run_rounds(std::vector<Measured>& subjects, const RoundOptions& options) {
  const auto show = [&](const std::string& what) {
    if (options.progress) options.progress(what);
  };
  for (Measured& measured : subjects) {
    if (!measured.why.empty()) continue;
    show("verify " + measured.description().id());
    run_step(measured, [&](Subject& subject) {
      try {
        subject.verify();
      } catch (const Error& error) {
        if (error.error_class() == ErrorClass::kUnavailable) throw;
        throw Error(error.code(), subject.description().id() + ": " + error.message());
      }
    });
  }
  std::vector<std::size_t> order(subjects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(options.seed);
  for (unsigned round = 0; round < options.rounds; ++round) {
    std::ranges::shuffle(order, random);
    for (std::size_t i = 0; i < order.size(); ++i) {
      Measured& measured = subjects[order[i]];
      if (!measured.why.empty()) continue;
      show(fmt::format("round {} of {}, {} of {}: {}", round + 1, options.rounds, i + 1, order.size(),
                       measured.description().id()));
      run_step(measured, [&](Subject& subject) {
        const ShortageWatch watch;
        Sample sample = subject.run();
        sample.transfers_in_place = watch.finish();
        measured.samples.push_back(sample);
      });
    }
  }
}

}  // namespace tzmark::bench
