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

// Of so many recent samples, so many may be disturbed before the machine counts as busy; as in cli/lap_filter.cc.
constexpr std::size_t kRecent = 40;
constexpr std::ptrdiff_t kDisturbedMax = 30;

double samples_max(std::size_t settings, const SearchOptions& options) {
  return std::max(static_cast<double>(kSamplesLeast),
                  kGridShare * static_cast<double>(settings * options.rung_samples_max));
}

}  // namespace

Sampler::Sampler(Meter& meter, std::span<const Setting> settings, const SearchOptions& options, SearchResult& result)
    : meter_(meter),
      settings_(settings),
      options_(options),
      result_(result),
      begin_(options.now()),
      samples_max_(samples_max(settings.size(), options)),
      entries_(settings.size(), kNone) {}

std::optional<TuneSample> Sampler::take(std::size_t setting, const std::string& what) {
  is_stopped_ = is_stopped_ || (options_.stop && options_.stop());
  if (over()) return std::nullopt;
  TunedSetting& tuned_setting = tuned(setting);
  if (!tuned_setting.failed.empty()) return std::nullopt;
  report(what);
  try {
    ++result_.samples_taken;
    return meter_.sample(settings_[setting]);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    tuned_setting.failed = error.message();
    return std::nullopt;
  }
}

bool Sampler::counts(bool disturbed) {
  recent_.push_back(disturbed);
  if (recent_.size() > kRecent) recent_.pop_front();
  const bool is_busy = std::ranges::count(recent_, true) > kDisturbedMax;
  result_.was_busy = result_.was_busy || is_busy;
  return !disturbed || is_busy;
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

void Sampler::report(const std::string& what) const {
  if (!options_.progress) return;
  const auto left = std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(options_.budget - elapsed()));
  options_.progress({what, result_.settings.size(), result_.samples_taken, std::min(1.0, spent()), left, best_rate_});
}

}  // namespace tzmark::bench
