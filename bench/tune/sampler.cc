// Samples within the budget; see sampler.h.
#include "tune/sampler.h"

#include <algorithm>
#include <cmath>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

// A search takes at most this part of the samples of the full grid, unless these are few.
constexpr double kGridShare = 0.1;
constexpr std::size_t kSamplesLeast = 1500;

double samples_max(std::size_t settings, const SearchOptions& options) {
  return std::max(static_cast<double>(kSamplesLeast),
                  kGridShare * static_cast<double>(settings * options.rung_samples_max));
}

}  // namespace

Sampler::Sampler(Meter& meter, std::span<const Setting> settings, const SearchOptions& options,
                 DisturbanceFilter& filter, SearchResult& result)
    : meter_(meter),
      settings_(settings),
      options_(options),
      filter_(filter),
      result_(result),
      begin_(options.now()),
      samples_max_(samples_max(settings.size(), options)),
      entries_(settings.size(), kNone),
      latest_(settings.size()),
      engine_(*this, filter, {.stop = [this] { return is_over_now(); }, .now = options.now}, 1) {}

Lap Sampler::lap(const std::vector<std::size_t>& order, const std::string& what) {
  what_ = what;
  const Lap lap = engine_.take(order);
  result_.was_busy = result_.was_busy || (lap.is_complete() && filter_.is_busy());
  return lap;
}

SourceSample Sampler::take(std::size_t setting) {
  entry(setting);
  report();
  ++result_.samples_taken;
  latest_[setting] = meter_.sample(settings_[setting]);
  return {latest_[setting].seconds_per_byte, latest_[setting].disturbance};
}

void Sampler::leave_out(std::size_t setting, const SourceFailure& failure) {
  if (failure.has_failed) throw;
  tuned(setting).failed = failure.message;
}

bool Sampler::is_over_now() {
  is_stopped_ = is_stopped_ || (options_.stop && options_.stop());
  return over();
}

double Sampler::spent() const {
  const double of_time = static_cast<double>(elapsed().count()) / static_cast<double>(options_.budget.count());
  return std::max(of_time, static_cast<double>(result_.samples_taken) / samples_max_);
}

std::size_t Sampler::affordable(double part) const {
  const double left = std::max(0.0, part - spent());
  const double of_samples = left * samples_max_;
  const auto cost = static_cast<double>(meter_.cost().count());
  const double of_time = cost > 0 ? left * static_cast<double>(options_.budget.count()) / cost : of_samples;
  return static_cast<std::size_t>(std::min(of_time, of_samples));
}

std::size_t Sampler::entry(std::size_t setting) {
  if (entries_[setting] == kNone) {
    entries_[setting] = result_.settings.size();
    result_.settings.push_back({.setting = settings_[setting]});
  }
  return entries_[setting];
}

bool Sampler::is_eligible(std::size_t setting) const {
  const std::uint64_t limit = options_.memory_limit_bytes;
  return !has_failed(setting) && (limit == 0 || settings_[setting].bytes_in_flight() <= limit);
}

void Sampler::report() const {
  if (!options_.progress) return;
  const auto left = std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(options_.budget - elapsed()));
  options_.progress({what_, result_.settings.size(), result_.samples_taken, std::min(1.0, spent()), left, best_rate_});
}

}  // namespace tzmark::bench
