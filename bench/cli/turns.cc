// Laps within pairs of processes; see turns.h.
#include "cli/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>
#include <random>

#include "measure/engine.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

// Of each line in each pair of processes: enough that their noise is of the order of that between processes.
constexpr std::size_t kLapsPerPair = 3;
// Beyond them, a line waits for the next pair.
constexpr std::size_t kDisturbedLapsPerPair = 3;

// Of each side of a line.
constexpr unsigned kTriesInAll = 3;

enum Side : std::size_t { kOld, kNew };

// The lines in both processes of a pair: twice the line, plus the side.
class PairSource final : public Source {
 public:
  PairSource(const StartProcess& start_old, const StartProcess& start_new, std::vector<TurnLine>& lines)
      : starts_{start_old, start_new}, lines_(lines), bytes_(lines.size()) {}

  void start(Side first) {
    for (const Side side : {first, first == kOld ? kNew : kOld}) pair_[side] = starts_[side]();
  }
  void end() { pair_ = {}; }
  bool is_running() const { return pair_[kOld]->is_running() && pair_[kNew]->is_running(); }

  SourceSample take(std::size_t i) override {
    const TurnSample taken = pair_[i % 2]->sample(i / 2);
    std::uint64_t& bytes = bytes_[i / 2];
    if (bytes != 0 && taken.bytes != bytes) {
      throw Error(ErrorCode::kUnavailable,
                  fmt::format("the builds move different amounts: {} and {} bytes", bytes, taken.bytes));
    }
    bytes = taken.bytes;
    return {taken.seconds_per_byte, taken.disturbance};
  }
  bool can_retry(std::size_t i) const override { return pair_[i % 2]->is_running(); }
  void note_failure(std::size_t i, const SourceFailure& failure) override {
    ++lines_[i / 2].failures;
    lines_[i / 2].last_failure = failure.message;
  }
  void leave_out(std::size_t i, const SourceFailure& failure) override { lines_[i / 2].why = failure.message; }

 private:
  const std::array<StartProcess, 2> starts_;
  std::vector<TurnLine>& lines_;
  std::vector<std::uint64_t> bytes_;  // by line
  std::array<std::unique_ptr<BuildProcess>, 2> pair_;
};

class Turns {
 public:
  Turns(PairSource& pair, std::vector<TurnLine>& lines, const TurnOptions& options)
      : pair_(pair),
        lines_(lines),
        options_(options),
        random_(options.seed),
        filter_(options.is_disturbed),
        // A build whose every process dies has laps without a failure in between.
        engine_(pair, filter_, {.stop = options.stop, .now = options.now, .end = options.now() + options.budget},
                kTriesInAll, Engine::Failures::kInAll) {}

  MachineConditions run() {
    engine_.run({[this] { return next(); }, [this](const Lap& lap) { conclude(lap); }});
    end_turn();
    for (TurnLine& line : lines_) {
      if (!is_open(line)) continue;
      line.ratio.finish();
      judge(line);
    }
    return filter_.conditions();
  }

 private:
  static bool is_open(const TurnLine& line) {
    return line.why.empty() && line.verdict == ChangeVerdict::kUndecided && !line.ratio.exhausted();
  }

  bool coin() { return random_() % 2 == 1; }

  // A lap of the line whose turn it is, old, new, new, old or the other way round.
  std::vector<std::size_t> next() {
    if (is_turn_over_) {
      end_turn();
      if (turns_.empty() && !begin_pair()) return {};
      begin_turn();
    }
    const Side outer = coin() ? kNew : kOld;
    const Side inner = outer == kOld ? kNew : kOld;
    const std::size_t line = 2 * turns_.front();
    return {line + outer, line + inner, line + inner, line + outer};
  }

  // Starts the next pair of processes; false if no line is open.
  bool begin_pair() {
    pair_.end();
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (is_open(lines_[i])) turns_.push_back(i);
    }
    if (turns_.empty()) return false;
    std::ranges::shuffle(turns_, random_);
    open_ = turns_.size();
    ++pairs_;
    if (options_.before_pair) options_.before_pair();
    pair_.start(coin() ? kNew : kOld);
    return true;
  }

  void begin_turn() {
    is_turn_over_ = false;
    if (!options_.progress) return;
    options_.progress(fmt::format("{} open, {:.0f} s left: processes {}: {}", open_,
                                  std::chrono::duration<double>(engine_.rest()).count(), pairs_,
                                  options_.name_of(turns_.front())));
  }

  void conclude(const Lap& lap) {
    TurnLine& line = lines_[turns_.front()];
    if (lap.result == LapResult::kCounts) {
      double log_ratio = 0;
      for (const LapSample& sample : lap.samples) {
        const bool is_old = sample.source % 2 == kOld;
        (is_old ? line.old_seconds : line.new_seconds).push_back(sample.seconds_per_byte);
        log_ratio += (is_old ? 0.5 : -0.5) * std::log(sample.seconds_per_byte);
      }
      log_ratios_.push_back(log_ratio);
    } else if (lap.result == LapResult::kDisturbed) {
      ++disturbed_;
      ++line.disturbed_laps;
    }
    is_turn_over_ = !lap.is_complete() || log_ratios_.size() == kLapsPerPair || disturbed_ == kDisturbedLapsPerPair;
  }

  // Laps before a failure, or before the end of the time, count: their samples are in the table. A pair with fewer laps
  // is noisier, but not biased.
  void end_turn() {
    if (turns_.empty()) return;
    TurnLine& line = lines_[turns_.front()];
    if (!log_ratios_.empty()) {
      line.ratio.add(std::accumulate(log_ratios_.begin(), log_ratios_.end(), 0.0) /
                     static_cast<double>(log_ratios_.size()));
      judge(line);
    }
    log_ratios_.clear();
    disturbed_ = 0;
    turns_.pop_front();
    if (!pair_.is_running()) turns_.clear();
  }

  void judge(TurnLine& line) const {
    line.verdict = judge_change(line.ratio.interval(), options_.floor, options_.effect);
  }

  PairSource& pair_;
  std::vector<TurnLine>& lines_;
  const TurnOptions& options_;
  std::mt19937_64 random_;
  DisturbanceFilter filter_;
  Engine engine_;
  std::deque<std::size_t> turns_;  // the lines that this pair still measures; the first one now
  bool is_turn_over_ = true;
  std::size_t pairs_ = 0, open_ = 0, disturbed_ = 0;
  std::vector<double> log_ratios_;  // of the rates, new over old, of the laps of this turn
};

}  // namespace

MachineConditions run_in_turn(const StartProcess& start_old, const StartProcess& start_new,
                              std::vector<TurnLine>& lines, const TurnOptions& options) {
  PairSource pair(start_old, start_new, lines);
  return Turns(pair, lines, options).run();
}

}  // namespace tzmark::bench
