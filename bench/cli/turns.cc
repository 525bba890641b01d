// Laps within pairs of processes; see turns.h.
#include "cli/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

#include "cli/rounds.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

// Of each line in each pair of processes: enough that their noise is of the order of that between processes.
constexpr std::size_t kLapsPerPair = 3;
// Beyond them, a line waits for the next pair.
constexpr std::size_t kDisturbedLapsPerPair = 3;
constexpr unsigned kTries = 3;

class Turns {
 public:
  Turns(const StartProcess& start_old, const StartProcess& start_new, std::vector<TurnLine>& lines,
        const TurnOptions& options)
      : starts_{start_old, start_new},
        lines_(lines),
        options_(options),
        random_(options.seed),
        begin_(options.now()),
        filter_(options.is_disturbed) {}

  ContestConditions run() {
    for (std::size_t pair = 1; rest().count() > 0; ++pair) {
      std::vector<std::size_t> open;
      for (std::size_t i = 0; i < lines_.size(); ++i) {
        if (is_open(lines_[i])) open.push_back(i);
      }
      if (open.empty()) break;
      std::ranges::shuffle(open, random_);
      run_pair(pair, open);
    }
    for (TurnLine& line : lines_) {
      if (!is_open(line)) continue;
      line.ratio.finish();
      judge(line);
    }
    return filter_.conditions();
  }

 private:
  enum Side : std::size_t { kOld, kNew };

  using Pair = std::array<std::unique_ptr<BuildProcess>, 2>;

  static bool is_open(const TurnLine& line) {
    return line.why.empty() && line.verdict == ChangeVerdict::kUndecided && !line.ratio.exhausted();
  }

  std::chrono::nanoseconds rest() const {
    if (options_.stop && options_.stop()) return std::chrono::nanoseconds(0);
    return begin_ + options_.budget - options_.now();
  }
  bool coin() { return random_() % 2 == 1; }

  void run_pair(std::size_t number, const std::vector<std::size_t>& open) {
    if (options_.before_pair) options_.before_pair();
    Pair pair;
    const Side first = coin() ? kNew : kOld;
    for (const Side side : {first, first == kOld ? kNew : kOld}) pair[side] = starts_[side]();
    for (const std::size_t i : open) {
      if (rest().count() <= 0) return;
      if (options_.progress) {
        options_.progress(fmt::format("{} open, {:.0f} s left: processes {}: {}", open.size(),
                                      std::chrono::duration<double>(rest()).count(), number, options_.name_of(i)));
      }
      laps(pair, i);
      if (!pair[kOld]->is_running() || !pair[kNew]->is_running()) return;
    }
  }

  void laps(Pair& pair, std::size_t i) {
    TurnLine& line = lines_[i];
    double sum = 0;
    std::size_t counted = 0;
    std::size_t disturbed = 0;
    while (counted < kLapsPerPair && disturbed < kDisturbedLapsPerPair && rest().count() > 0) {
      const std::optional<double> log_ratio = lap(pair, i);
      // The laps before count: their samples are in the table.
      if (!line.why.empty() || line.failures > 0) break;
      if (log_ratio) {
        sum += *log_ratio;
        ++counted;
      } else {
        ++disturbed;
        ++line.disturbed_laps;
      }
    }
    // A pair with fewer laps is noisier, but not biased: what ended it is time or a failure.
    if (counted == 0) return;
    line.ratio.add(sum / static_cast<double>(counted));
    judge(line);
  }

  // Returns the logarithm of the ratio of rates, or nothing for a lap that does not count.
  std::optional<double> lap(Pair& pair, std::size_t i) {
    TurnLine& line = lines_[i];
    const Side outer = coin() ? kNew : kOld;
    const Side inner = outer == kOld ? kNew : kOld;
    std::array<std::vector<double>, 2> seconds;
    std::uint64_t bytes = 0;
    Disturbance disturbance;
    for (const Side side : {outer, inner, inner, outer}) {
      const std::optional<TurnSample> taken = try_sample(*pair[side], i);
      if (!taken) return {};
      if (bytes != 0 && taken->bytes != bytes) {
        line.why = fmt::format("the builds move different amounts: {} and {} bytes", bytes, taken->bytes);
        return {};
      }
      bytes = taken->bytes;
      seconds[side].push_back(taken->seconds_per_byte);
      disturbance += taken->disturbance;
    }
    line.failures = 0;
    filter_.add(disturbance);
    if (!filter_.counts(disturbance)) return {};
    const auto sum_of_logs = [](double sum, double value) { return sum + std::log(value); };
    const double old_logs = std::accumulate(seconds[kOld].begin(), seconds[kOld].end(), 0.0, sum_of_logs);
    const double new_logs = std::accumulate(seconds[kNew].begin(), seconds[kNew].end(), 0.0, sum_of_logs);
    line.old_seconds.insert(line.old_seconds.end(), seconds[kOld].begin(), seconds[kOld].end());
    line.new_seconds.insert(line.new_seconds.end(), seconds[kNew].begin(), seconds[kNew].end());
    return (old_logs - new_logs) / 2;
  }

  // Returns nothing after a failure, and sets why if the line cannot be measured.
  std::optional<TurnSample> try_sample(BuildProcess& process, std::size_t i) {
    TurnLine& line = lines_[i];
    for (;;) {
      try {
        return process.sample(i);
      } catch (const Error& error) {
        if (means_wrong_bytes(error)) throw;
        if (error.error_class() == ErrorClass::kUnavailable || ++line.failures == kTries) line.why = error.message();
        if (!line.why.empty() || !process.is_running()) return {};
      }
    }
  }

  void judge(TurnLine& line) const {
    line.verdict = judge_change(line.ratio.interval(), options_.floor, options_.effect);
  }

  const std::array<StartProcess, 2> starts_;
  std::vector<TurnLine>& lines_;
  const TurnOptions& options_;
  std::mt19937_64 random_;
  const std::chrono::steady_clock::time_point begin_;
  LapFilter filter_;
};

}  // namespace

ContestConditions run_in_turn(const StartProcess& start_old, const StartProcess& start_new,
                              std::vector<TurnLine>& lines, const TurnOptions& options) {
  return Turns(start_old, start_new, lines, options).run();
}

}  // namespace tzmark::bench
