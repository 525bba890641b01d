// Laps until every ratio is decided; see contest.h.
#include "cli/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <ranges>

namespace tzmark::bench {
namespace {

// Enough that the first one, which needs more preparation, matters little; few enough that no moment of the machine
// decides a contest, whose first look needs 10 laps.
constexpr std::size_t kLapsInARow = 4;
// Of the budget, for borderline ratios: contests of later groups need what is left to be decided at all.
constexpr double kClearingShare = 0.1;

// How long the samples of a subject take, preparations included.
struct SampleTime {
  std::uint64_t latest = 0, sum = 0, count = 0;

  void add(std::chrono::nanoseconds time) {
    latest = static_cast<std::uint64_t>(time.count());
    sum += latest;
    ++count;
  }
  double mean() const { return static_cast<double>(sum) / static_cast<double>(std::max<std::uint64_t>(1, count)); }
};

class Scheduler {
 public:
  Scheduler(std::vector<Measured>& subjects, std::span<Contest> contests, const ContestOptions& options,
            LapFilter& filter)
      : subjects_(subjects),
        contests_(contests),
        options_(options),
        random_(options.seed),
        end_(options.now() + options.budget),
        position_(subjects.size()),
        sample_ns_(subjects.size()),
        filter_(filter) {}

  void run() {
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
      std::map<std::size_t, std::vector<std::size_t>> contests_of;  // by the subject whose samples they share
      for (const std::size_t i : affordable(wants)) contests_of[shared_subject(contests_[i])].push_back(i);
      if (contests_of.empty()) return;
      std::vector<std::vector<std::size_t>> turns;
      for (auto& [subject, contests] : contests_of) turns.push_back(std::move(contests));
      std::ranges::shuffle(turns, random_);
      for (std::vector<std::size_t>& turn : turns) laps(turn, wants);
    }
  }

  // Several in a row, as memory and files that were just used need little preparation.
  void laps(std::vector<std::size_t>& turn, bool (Scheduler::*wants)(const Contest&) const) {
    for (std::size_t i = 0; i < kLapsInARow && rest().count() > 0; ++i) {
      std::erase_if(turn, [&](std::size_t number) { return !(this->*wants)(contests_[number]); });
      if (turn.empty()) return;
      lap(turn);
    }
  }

  std::chrono::nanoseconds rest() const {
    return options_.is_stopped() ? std::chrono::nanoseconds(0) : end_ - options_.now();
  }

  // What the first subject of a contest is compared with, or itself if that is no subject.
  static std::size_t shared_subject(const Contest& contest) {
    return contest.subjects[contest.subjects.size() > 1 ? 1 : 0];
  }

  // The contests that can be decided in the time that is left, the cheapest first; one if none can.
  std::vector<std::size_t> affordable(bool (Scheduler::*wants)(const Contest&) const) const {
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> laps_of;  // by the shared subject and the subject
    const auto cost_ns = [&](const Contest& contest) {
      double sum_ns = 0;
      for (const std::size_t subject : contest.subjects) {
        const std::size_t paid = laps_of[{shared_subject(contest), subject}];
        const std::size_t missing = missing_laps(contest);
        sum_ns += missing <= paid ? 0 : static_cast<double>(missing - paid) * sample_ns_[subject].mean();
      }
      return sum_ns;
    };
    std::vector<std::pair<double, std::size_t>> costs;
    for (std::size_t i = 0; i < contests_.size(); ++i) {
      if ((this->*wants)(contests_[i])) costs.emplace_back(cost_ns(contests_[i]), i);
    }
    std::ranges::sort(costs);
    std::vector<std::size_t> chosen;
    double sum_ns = 0;
    for (const std::size_t i : costs | std::views::values) {
      const Contest& contest = contests_[i];
      const double more_ns = cost_ns(contest);
      if (!chosen.empty() && sum_ns + more_ns > static_cast<double>(rest().count())) continue;
      sum_ns += more_ns;
      for (const std::size_t subject : contest.subjects) {
        std::size_t& laps = laps_of[{shared_subject(contest), subject}];
        laps = std::max(laps, missing_laps(contest));
      }
      chosen.push_back(i);
    }
    return chosen;
  }

  // How many laps are expected until a contest is decided: 0 before its first look, which each contest gets.
  std::size_t missing_laps(const Contest& contest) const {
    const std::size_t needed =
        pairs_to_decide(contest.interval.interval(), contest.required, contest.at_most, options_.zone);
    const std::size_t done = contest.interval.pairs();
    if (done == 0 || needed <= done) return 0;
    // As many of them will be disturbed as before.
    return (needed - done) * (done + contest.disturbed_laps) / done;
  }

  // Takes a sample of each subject of the contests in random order, and gives each contest its ratio.
  void lap(const std::vector<std::size_t>& turn) {
    if (options_.progress) {
      const Contest& first = contests_[turn.front()];
      options_.progress(fmt::format("{} open, {:.0f} s left: {}{}, lap {}",
                                    std::ranges::count_if(contests_, [&](const Contest& c) { return is_open(c); }),
                                    std::chrono::duration<double>(rest()).count(), first.name,
                                    turn.size() > 1 ? fmt::format(" and {} more", turn.size() - 1) : "",
                                    first.interval.pairs() + 1));
    }
    std::vector<std::size_t> order;
    for (const std::size_t i : turn) {
      order.insert(order.end(), contests_[i].subjects.begin(), contests_[i].subjects.end());
    }
    std::ranges::sort(order);
    const auto repeated = std::ranges::unique(order);
    order.erase(repeated.begin(), repeated.end());
    std::ranges::shuffle(order, random_);
    Disturbance disturbance;
    for (const std::size_t subject : order) {
      const auto begin = options_.now();
      if (!try_sample(subjects_[subject])) continue;
      disturbance += subjects_[subject].samples.back().disturbance;
      subjects_[subject].samples.back().position = position_++;
      sample_ns_[subject].add(options_.now() - begin);
    }
    filter_.add(disturbance);
    for (const std::size_t i : turn) conclude_lap(contests_[i]);
  }

  // REQUIRES: the latest sample of each of its subjects is of this lap.
  void conclude_lap(Contest& contest) {
    std::vector<double> seconds;
    Disturbance disturbance;
    for (const std::size_t subject : contest.subjects) {
      const Measured& measured = subjects_[subject];
      if (!measured.why.empty()) {
        contest.why = measured.why;
        return;
      }
      const Sample& taken = measured.samples.back();
      seconds.push_back(seconds_per_byte(measured, taken));
      disturbance += taken.disturbance;
      contest.elapsed_ns += sample_ns_[subject].latest;
    }
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
  std::vector<SampleTime> sample_ns_;  // by subject
  std::vector<std::size_t> laps_max_;  // by contest, after the budget has been given to those that were open
  LapFilter& filter_;
};

}  // namespace

void run_contests(std::vector<Measured>& subjects, std::span<Contest> contests, const ContestOptions& options,
                  LapFilter& filter) {
  Scheduler(subjects, contests, options, filter).run();
}

}  // namespace tzmark::bench
