// Laps until every ratio is decided; see contest.h.
#include "cli/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace tzmark::bench {
namespace {

// Enough that the first one, which needs more preparation, matters little; few enough that no moment of the machine
// decides a contest, whose first look needs 10 laps.
constexpr std::size_t kLapsInARow = 4;
// Of the budget, for borderline ratios: contests of later groups need what is left to be decided at all.
constexpr double kClearingShare = 0.1;

class Scheduler {
 public:
  Scheduler(std::vector<Measured>& subjects, std::span<Contest> contests, const ContestOptions& options)
      : subjects_(subjects),
        contests_(contests),
        options_(options),
        random_(options.seed),
        end_(options.now() + options.budget),
        position_(subjects.size()),
        filter_(options.is_disturbed) {}

  ContestConditions run() {
    run_while(&Scheduler::is_open);
    for (Contest& contest : contests_) {
      if (contest.verdict != BoundVerdict::kUndecided) continue;
      contest.interval.finish();
      judge(contest);
    }
    for (Contest& contest : contests_) laps_max_.push_back(contest.interval.next_look());
    end_ = std::min(
        end_, options_.now() + std::chrono::duration_cast<std::chrono::nanoseconds>(options_.budget * kClearingShare));
    run_while(&Scheduler::may_become_clear);
    return filter_.conditions();
  }

 private:
  bool can_go_on(const Contest& contest) const {
    return contest.why.empty() && !contest.interval.exhausted() && contest.interval.pairs() < options_.laps_max;
  }

  bool is_open(const Contest& contest) const {
    return can_go_on(contest) && contest.verdict == BoundVerdict::kUndecided;
  }

  // Whether more laps may replace a borderline verdict by a clear one.
  bool may_become_clear(const Contest& contest) const {
    const double estimate = contest.interval.interval().estimate;
    const bool may_pass = contest.verdict == BoundVerdict::kPassBorderline &&
                          (contest.at_most ? estimate < contest.required : estimate > contest.required);
    return can_go_on(contest) && (may_pass || contest.verdict == BoundVerdict::kBorderline) &&
           contest.interval.pairs() < laps_max_[static_cast<std::size_t>(&contest - contests_.data())];
  }

  void run_while(bool (Scheduler::*wants)(const Contest&) const) {
    while (rest().count() > 0) {
      std::vector<std::size_t> turn = affordable(wants);
      if (turn.empty()) return;
      std::ranges::shuffle(turn, random_);
      for (const std::size_t i : turn) laps(contests_[i], wants);
    }
  }

  // Several in a row, as memory and files that were just used need little preparation.
  void laps(Contest& contest, bool (Scheduler::*wants)(const Contest&) const) {
    for (std::size_t i = 0; i < kLapsInARow && rest().count() > 0 && (this->*wants)(contest); ++i) lap(contest);
  }

  std::chrono::nanoseconds rest() const { return end_ - options_.now(); }

  // The contests that can be decided in the time that is left, the cheapest first; one if none can.
  std::vector<std::size_t> affordable(bool (Scheduler::*wants)(const Contest&) const) const {
    std::vector<std::pair<double, std::size_t>> costs;
    for (std::size_t i = 0; i < contests_.size(); ++i) {
      if ((this->*wants)(contests_[i])) costs.emplace_back(cost_ns(contests_[i]), i);
    }
    std::ranges::sort(costs);
    std::vector<std::size_t> chosen;
    double sum_ns = 0;
    for (const auto& [cost, i] : costs) {
      sum_ns += cost;
      if (!chosen.empty() && sum_ns > static_cast<double>(rest().count())) break;
      chosen.push_back(i);
    }
    return chosen;
  }

  // The expected time until a contest is decided: 0 before its first look, which each contest gets.
  double cost_ns(const Contest& contest) const {
    const std::size_t needed =
        pairs_to_decide(contest.interval.interval(), contest.required, contest.at_most, options_.zone);
    const std::size_t done = contest.interval.pairs();
    if (done == 0 || needed <= done) return 0;
    return static_cast<double>(needed - done) * static_cast<double>(contest.elapsed_ns) / static_cast<double>(done);
  }

  void lap(Contest& contest) {
    if (options_.progress) {
      options_.progress(fmt::format("{} open, {:.0f} s left: {}, lap {}",
                                    std::ranges::count_if(contests_, [&](const Contest& c) { return is_open(c); }),
                                    std::chrono::duration<double>(rest()).count(), contest.name,
                                    contest.interval.pairs() + 1));
    }
    const auto begin = options_.now();
    std::vector<std::size_t> order(contest.subjects.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (random_() % 2 == 1) std::ranges::reverse(order);
    std::vector<double> seconds(contest.subjects.size());
    Disturbance disturbance;
    for (const std::size_t place : order) {
      Measured& measured = subjects_[contest.subjects[place]];
      if (!try_sample(measured)) {
        contest.why = measured.why;
        return;
      }
      Sample& taken = measured.samples.back();
      taken.position = position_++;
      seconds[place] = seconds_per_byte(measured, taken);
      disturbance += taken.disturbance;
    }
    contest.elapsed_ns += static_cast<std::uint64_t>((options_.now() - begin) / std::chrono::nanoseconds(1));
    if (!filter_.counts(disturbance)) {
      ++contest.disturbed_laps;
      return;
    }
    contest.interval.add(std::log(contest.ratio(seconds)));
    judge(contest);
  }

  static double seconds_per_byte(const Measured& measured, const Sample& sample) {
    const auto elapsed_ns = static_cast<double>(sample.elapsed_ns + sample.sync_ns.value_or(0));
    return elapsed_ns / 1e9 / static_cast<double>(std::max<std::uint64_t>(1, measured.description().bytes));
  }

  void judge(Contest& contest) const {
    const BoundVerdict now = judge_ratio(contest.interval.interval(), contest.required, contest.at_most, options_.zone);
    // The intervals of all looks hold together, so that more laps can only make it better.
    if (contest.verdict == BoundVerdict::kPassBorderline && now != BoundVerdict::kPass) return;
    if (contest.verdict == BoundVerdict::kBorderline && now == BoundVerdict::kUndecided) return;
    contest.verdict = now;
  }

  std::vector<Measured>& subjects_;
  const std::span<Contest> contests_;
  const ContestOptions& options_;
  std::mt19937_64 random_;
  std::chrono::steady_clock::time_point end_;
  std::uint64_t position_;
  std::vector<std::size_t> laps_max_;  // by contest, after the budget has been given to those that were open
  LapFilter filter_;
};

}  // namespace

ContestConditions run_contests(std::vector<Measured>& subjects, std::span<Contest> contests,
                               const ContestOptions& options) {
  return Scheduler(subjects, contests, options).run();
}

}  // namespace tzmark::bench
