// Rungs of halving and climbing; see halving.h.
#include "tune/halving.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "harness/ranks.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kFirstRung = 2;  // samples: fewer would tell nothing of the noise
constexpr double kSearchEnd = 0.55;    // parts of the budget; the confirmation gets the rest
constexpr double kLeastEnd = 0.63;
constexpr double kStartShare = 0.6;  // of the first rung; its climbing gets the rest
constexpr double kKeepShare = 0.6;   // of each later rung
constexpr std::size_t kFront = 3;    // settings whose neighbors are tried, besides the best of each path
constexpr std::size_t kFinalistsMin = 4;
constexpr std::size_t kLeastBatch = 6;  // candidates for the least bytes in flight at a time
constexpr std::size_t kOfPath = 3;  // settings that stand for a path that may still win: one alone may just be lucky
constexpr std::size_t kSeparatedFrom = 16;  // samples: before that, the climbing is not done
// Standard errors after which a setting leaves a race, and a path the search. Leaving is no verdict: it only saves
// time.
constexpr double kLeavesRace = 3;
constexpr double kLeavesSearch = 3;

// Samples that a setting gets before it may leave a race: the more, the more the rung can afford, because both of two
// samples may be outliers.
std::size_t first_look(std::size_t n) { return std::max(kFirstRung, n / 8); }

bool contains(const std::vector<std::size_t>& list, std::size_t value) {
  return std::ranges::find(list, value) != list.end();
}

}  // namespace

Halving::Halving(Sampler& sampler, const Space& space, Estimates& estimates, std::mt19937_64& random)
    : sampler_(sampler), space_(space), estimates_(estimates), random_(random), raced_in_(space.size()) {}

void Halving::run() {
  phase_end_ = kSearchEnd;
  what_ = "search, the standard setting";
  pool_ = {0};
  fill(pool_, kFirstRung);
  const std::size_t last = plan_last_rung();
  const std::size_t rungs = static_cast<std::size_t>(std::bit_width(last)) - 1;
  const double begin = sampler_.spent();
  const double share = (kSearchEnd - begin) / static_cast<double>(rungs);
  start(begin + share * kStartShare);
  std::size_t rung = 1;
  for (std::size_t n = kFirstRung; n <= last; n *= 2, ++rung) {
    what_ = fmt::format("search, rung {} of {}", rung, rungs);
    fill(pool_, n);
    climb(n, begin + share * static_cast<double>(rung));
    conclude_rung(n);
    const double next_end = begin + share * (static_cast<double>(rung) + kKeepShare);
    if (n < last) halve(sampler_.affordable(next_end) / n);
    if ((pool_.size() <= 1 && n >= kSeparatedFrom) || sampler_.over()) return;
  }
}

// As precise as it can be with some settings left.
std::size_t Halving::plan_last_rung() const {
  const std::size_t samples = sampler_.affordable(kSearchEnd);
  std::size_t last = std::bit_floor(std::max(kFirstRung, sampler_.options().rung_samples_max));
  while (last > kFirstRung && samples / (static_cast<std::size_t>(std::bit_width(last)) - 1) < kFinalistsMin * last) {
    last /= 2;
  }
  return last;
}

// Spreads settings over each path.
void Halving::start(double part_end) {
  const std::size_t settings = sampler_.affordable(part_end) / kFirstRung;
  for (std::size_t path = 0; path < space_.path_count(); ++path) {
    const std::size_t count = std::max<std::size_t>(1, settings / space_.path_count());
    for (const std::size_t setting : space_.spread(path, count, random_)) {
      if (!contains(pool_, setting)) pool_.push_back(setting);
    }
  }
  start_ = pool_;
}

void Halving::fill(std::span<const std::size_t> chosen, std::size_t n) {
  // Disturbed samples do not count; a setting that only gets such ones must not hold up the others for ever.
  const std::size_t rounds_max = 3 * n;
  std::vector<std::size_t> round;
  for (std::size_t i = 0; i < rounds_max; ++i) {
    round.clear();
    std::ranges::copy_if(chosen, std::back_inserter(round), [&](std::size_t setting) {
      return estimates_.count(setting) < n && !sampler_.has_failed(setting);
    });
    if (round.empty()) break;
    std::ranges::shuffle(round, random_);
    for (const std::size_t setting : round) sample(setting);
  }
  const std::vector<std::size_t> order = ranked();
  if (!order.empty()) sampler_.set_best_rate(std::exp(-estimates_.location(order.front())));
}

void Halving::sample(std::size_t setting) {
  if (sampler_.spent() >= phase_end_) return;
  const Lap lap = sampler_.lap({setting}, what_);
  if (!lap.is_complete()) return;
  TunedSetting& tuned = sampler_.tuned(setting);
  if (lap.result == LapResult::kDisturbed) {
    ++tuned.disturbed_samples;
    return;
  }
  tuned.samples.push_back(sampler_.latest(setting));
  estimates_.add(setting, std::log(lap.of(setting).seconds_per_byte));
}

// Adds neighbors of the best until none is left that noise does not rule out.
void Halving::climb(std::size_t n, double part_end) {
  while (!sampler_.over() && sampler_.spent() < part_end) {
    const std::vector<std::size_t> fresh = neighbors_of_front(n, sampler_.affordable(part_end) / first_look(n));
    if (fresh.empty()) return;
    for (const std::size_t setting : fresh) raced_in_[setting] = n;
    std::ranges::copy(race(fresh, n, part_end, 0, Against::kPath), std::back_inserter(pool_));
  }
}

// One neighbor of each in turn, so that each path gets its part of a small limit.
std::vector<std::size_t> Halving::neighbors_of_front(std::size_t n, std::size_t limit) {
  std::vector<std::size_t> front = best_of_paths(1);
  for (const std::size_t setting : ranked()) {
    if (front.size() >= kFront + space_.path_count()) break;
    if (!contains(front, setting)) front.push_back(setting);
  }
  std::vector<std::vector<std::size_t>> around;
  std::size_t longest = 0;
  for (const std::size_t setting : front) {
    around.push_back(space_.neighbors(setting));
    std::erase_if(around.back(), [&](std::size_t other) {
      return raced_in_[other] >= n || contains(pool_, other) || !sampler_.is_eligible(other) ||
             (estimates_.count(other) >= first_look(n) && estimates_.is_behind(other, setting, 0, kLeavesRace));
    });
    std::ranges::shuffle(around.back(), random_);
    longest = std::max(longest, around.back().size());
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < longest; ++i) {
    for (const auto& list : around) {
      if (i < list.size() && found.size() < limit && !contains(found, list[i])) found.push_back(list[i]);
    }
  }
  return found;
}

// Samples the candidates twice as long each time, up to n samples each, and returns those that noise does not rule out.
// The slower ones leave if the time, up to a part of the budget, does not suffice for all.
std::vector<std::size_t> Halving::race(std::vector<std::size_t> candidates, std::size_t n, double part_end, double loss,
                                       Against against) {
  for (std::size_t target = first_look(n);; target = std::min(2 * target, n)) {
    fill(candidates, target);
    drop_behind(candidates, loss, against);
    if (target >= n || candidates.empty()) return candidates;
    std::ranges::sort(candidates, {}, [&](std::size_t setting) { return estimates_.location(setting); });
    candidates.resize(std::min(candidates.size(), sampler_.affordable(part_end) / target));
  }
}

void Halving::drop_behind(std::vector<std::size_t>& candidates, double loss, Against against) const {
  const std::vector<std::size_t> leaders = best_of_paths(1);
  std::erase_if(candidates, [&](std::size_t setting) {
    if (!is_sampled(setting)) return true;
    const auto same_path = [&](std::size_t leader) { return space_.path_of(leader) == space_.path_of(setting); };
    const auto leader = against == Against::kPath ? std::ranges::find_if(leaders, same_path) : leaders.end();
    return estimates_.is_behind(setting, leader != leaders.end() ? *leader : leaders.front(), loss, kLeavesRace);
  });
}

// Keeps the better half, and the best of each path, unless they are behind.
void Halving::halve(std::size_t keep_max) {
  const std::vector<std::size_t> order = ranked();
  if (order.empty()) return;
  const std::size_t half = std::min(keep_max, (order.size() + 1) / 2);
  const std::size_t keep = std::max(half, std::min(order.size(), kFinalistsMin));
  std::vector<std::size_t> kept(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep));
  for (const std::size_t setting : best_of_paths(kOfPath)) {
    if (!contains(kept, setting)) kept.push_back(setting);
  }
  std::erase_if(kept, [&](std::size_t setting) { return estimates_.is_behind(setting, order[0], 0, kLeavesSearch); });
  for (const std::size_t setting : kept) ++sampler_.tuned(setting).rounds_survived;
  pool_ = std::move(kept);
}

void Halving::conclude_rung(std::size_t n) {
  std::vector<std::size_t> reached = ranked();
  std::erase_if(reached, [&](std::size_t setting) { return estimates_.count(setting) < n; });
  if (reached.empty()) return;
  finalists_ = std::move(reached);
  last_rung_samples_ = n;
}

// The pool, the fastest first.
std::vector<std::size_t> Halving::ranked() const {
  std::vector<std::size_t> order;
  std::ranges::copy_if(pool_, std::back_inserter(order), [&](std::size_t setting) { return is_sampled(setting); });
  std::ranges::sort(order, {}, [&](std::size_t setting) { return estimates_.location(setting); });
  return order;
}

// So many of each path of the pool, the fastest first.
std::vector<std::size_t> Halving::best_of_paths(std::size_t each) const {
  std::vector<std::size_t> taken(space_.path_count());
  std::vector<std::size_t> best = ranked();
  std::erase_if(best, [&](std::size_t setting) { return taken[space_.path_of(setting)]++ >= each; });
  return best;
}

// Descends: from what suffices so far to the few candidates with the least bytes, as long as one of them suffices.
std::size_t Halving::find_least_in_flight(double loss) {
  phase_end_ = kLeastEnd;
  what_ = "least bytes in flight";
  const std::size_t leader = finalists_.front();
  // The bound is not as sharp as the choice of the best, where all are close to each other.
  const std::size_t samples = std::max(kFirstRung, last_rung_samples_ / 2);
  std::size_t least = leader;
  const auto consider = [&](const std::vector<std::size_t>& settings) {
    for (const std::size_t setting : settings) {
      const bool is_less = bytes_in_flight(setting) < bytes_in_flight(least);
      const bool is_known = estimates_.count(setting) >= samples;
      if (is_less && is_known && estimates_.behind(setting, leader) <= loss) least = setting;
    }
  };
  consider(finalists_);
  std::vector<bool> is_tried(space_.size());
  while (!sampler_.over() && sampler_.spent() < kLeastEnd) {
    std::vector<std::size_t> candidates = with_less_in_flight(least, loss);
    std::erase_if(candidates, [&](std::size_t setting) { return is_tried[setting]; });
    candidates.resize(std::min({candidates.size(), kLeastBatch, sampler_.affordable(kLeastEnd) / samples}));
    if (candidates.empty()) break;
    for (const std::size_t setting : candidates) is_tried[setting] = true;
    consider(race(std::move(candidates), samples, kLeastEnd, loss, Against::kAll));
  }
  return least;
}

// The neighbors of a setting and all that were sampled, with less bytes in flight than it, those with the least first;
// without those that noise rules out.
std::vector<std::size_t> Halving::with_less_in_flight(std::size_t than, double loss) const {
  const std::size_t leader = finalists_.front();
  std::vector<std::size_t> found = space_.neighbors(than);
  for (std::size_t setting = 0; setting < space_.size(); ++setting) {
    if (is_sampled(setting) && !contains(found, setting)) found.push_back(setting);
  }
  std::erase_if(found, [&](std::size_t setting) {
    return bytes_in_flight(setting) >= bytes_in_flight(than) || !sampler_.is_eligible(setting) ||
           (is_sampled(setting) && estimates_.is_behind(setting, leader, loss, kLeavesRace));
  });
  std::ranges::stable_sort(found, {}, [&](std::size_t setting) { return bytes_in_flight(setting); });
  return found;
}

// The first sample of each divides the settings into two halves, the second compares these: settings that are all equal
// show no difference then, although the faster of them were picked.
bool Halving::settings_differ() const {
  std::vector<std::pair<double, double>> pairs;
  for (const std::size_t setting : start_) {
    const std::vector<double>& logs = estimates_.logs(setting);
    if (logs.size() >= 2) pairs.emplace_back(logs[0], logs[1]);
  }
  if (pairs.size() < 2) return false;
  std::ranges::sort(pairs);
  std::vector<double> faster;
  std::vector<double> slower;
  for (std::size_t i = 0; i < pairs.size(); ++i) (i < pairs.size() / 2 ? faster : slower).push_back(pairs[i].second);
  const Shift shift = unpaired_shift(faster, slower, 0.05);
  return shift.low && *shift.low > 0;
}

}  // namespace tzmark::bench
