// Laps until every ratio is decided; see contest.h.
#include "cli/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
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

class Scheduler {
 public:
  Scheduler(std::vector<Measured>& subjects, std::span<Contest> contests, const ContestOptions& options,
            DisturbanceFilter& filter)
      : subjects_(subjects),
        contests_(contests),
        options_(options),
        random_(options.seed),
        filter_(filter),
        end_(options.now() + options.budget),
        source_(subjects, subjects.size()),
        engine_(source_, filter, {.stop = options.stop, .now = options.now, .end = end_}) {}

  void run() {
    // What could not be verified must not be run.
    for (Contest& contest : contests_) leave_out_if_a_subject_is(contest);
    run_while(&Scheduler::is_open);
    for (Contest& contest : contests_) {
      if (contest.verdict != BoundVerdict::kUndecided) continue;
      contest.interval.finish();
      judge(contest);
    }
    for (Contest& contest : contests_) laps_max_.push_back(contest.interval.next_look());
    const auto clearing = std::chrono::duration_cast<std::chrono::nanoseconds>(options_.budget * kClearingShare);
    engine_.set_end(std::min(end_, options_.now() + clearing));
    run_while(&Scheduler::may_become_clear);
  }

 private:
  using Wants = bool (Scheduler::*)(const Contest&) const;

  void leave_out_if_a_subject_is(Contest& contest) const {
    for (const std::size_t subject : contest.subjects) {
      if (!subjects_[subject].why.empty()) contest.why = subjects_[subject].why;
    }
  }

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

  void run_while(Wants wants) {
    turns_.clear();
    engine_.run({[this, wants] { return next(wants); }, [this](const Lap& lap) { conclude(lap); }});
  }

  // Several laps of a turn in a row, as memory and files that were just used need little preparation.
  std::vector<std::size_t> next(Wants wants) {
    for (;; laps_in_a_row_ = 0) {
      if (turns_.empty()) plan(wants);
      if (turns_.empty()) return {};
      std::vector<std::size_t>& turn = turns_.front();
      std::erase_if(turn, [&](std::size_t number) { return !(this->*wants)(contests_[number]); });
      if (!turn.empty() && laps_in_a_row_++ < kLapsInARow) return order_of(turn);
      turns_.pop_front();
    }
  }

  void plan(Wants wants) {
    std::map<std::size_t, std::vector<std::size_t>> contests_of;  // by the subject whose samples they share
    for (const std::size_t i : affordable(wants)) contests_of[shared_subject(contests_[i])].push_back(i);
    for (auto& [subject, contests] : contests_of) turns_.push_back(std::move(contests));
    std::ranges::shuffle(turns_, random_);
  }

  // What the first subject of a contest is compared with, or itself if that is no subject.
  static std::size_t shared_subject(const Contest& contest) {
    return contest.subjects[contest.subjects.size() > 1 ? 1 : 0];
  }

  // The contests that can be decided in the time that is left, the cheapest first; one if none can.
  std::vector<std::size_t> affordable(Wants wants) const {
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> laps_of;  // by the shared subject and the subject
    const auto cost_ns = [&](const Contest& contest) {
      double sum_ns = 0;
      for (const std::size_t subject : contest.subjects) {
        const std::size_t paid = laps_of[{shared_subject(contest), subject}];
        const std::size_t missing = missing_laps(contest);
        sum_ns += missing <= paid ? 0 : static_cast<double>(missing - paid) * engine_.log().mean_length_ns(subject);
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
      if (!chosen.empty() && sum_ns + more_ns > static_cast<double>(engine_.rest().count())) continue;
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

  // Each subject of the contests once, in random order.
  std::vector<std::size_t> order_of(const std::vector<std::size_t>& turn) {
    if (options_.progress) {
      const Contest& first = contests_[turn.front()];
      options_.progress(fmt::format("{} open, {:.0f} s left: {}{}, lap {}",
                                    std::ranges::count_if(contests_, [&](const Contest& c) { return is_open(c); }),
                                    std::chrono::duration<double>(engine_.rest()).count(), first.name,
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
    return order;
  }

  // Gives each contest of the lap its ratio, from a part of the lap.
  void conclude(const Lap& lap) {
    for (const std::size_t i : turns_.front()) {
      Contest& contest = contests_[i];
      leave_out_if_a_subject_is(contest);
      if (contest.why.empty() && lap.is_complete()) conclude(contest, lap);
    }
  }

  void conclude(Contest& contest, const Lap& lap) {
    std::vector<double> seconds;
    Disturbance disturbance;
    for (const std::size_t subject : contest.subjects) {
      const LapSample& taken = lap.of(subject);
      seconds.push_back(taken.seconds_per_byte);
      disturbance += taken.disturbance;
      contest.elapsed_ns += static_cast<std::uint64_t>(taken.length.count());
    }
    if (!filter_.counts(disturbance)) {
      ++contest.disturbed_laps;
      return;
    }
    contest.interval.add(std::log(contest.ratio(seconds)));
    judge(contest);
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
  const DisturbanceFilter& filter_;
  const std::chrono::steady_clock::time_point end_;
  SubjectSource source_;
  Engine engine_;
  std::deque<std::vector<std::size_t>> turns_;  // of contests that share laps; the first one is measured
  std::size_t laps_in_a_row_ = 0;
  std::vector<std::size_t> laps_max_;  // by contest, after the budget has been given to those that were open
};

}  // namespace

void run_contests(std::vector<Measured>& subjects, std::span<Contest> contests, const ContestOptions& options,
                  DisturbanceFilter& filter) {
  Scheduler(subjects, contests, options, filter).run();
}

}  // namespace tzmark::bench
