// Long runs and what they show; see steady.h.
#include "cli/steady.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <thread>

#include "cli/result_document.h"
#include "harness/device_counters.h"
#include "harness/free_memory.h"
#include "harness/or_null.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kSamplesMax = 500;

// Shows once per second what moved in it: by the operations that ended, and by the device, which also counts other
// processes. A thread, because one operation may take many seconds.
class LiveLine {
 public:
  // name: of the subject, with its place among all.
  LiveLine(const LongRunOptions& options, std::string name) : options_(options), name_(std::move(name)) {
    if (options_.progress) thread_ = std::jthread([this](const std::stop_token& stop) { show(stop); });
  }

  void ended(std::uint64_t bytes, const TimedOperation& operation) {
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    busy_ns_ += operation.end_ns - operation.begin_ns;
  }

 private:
  void show(const std::stop_token& stop) try {
    constexpr auto kInterval = std::chrono::seconds(1);
    Clock::time_point shown = begin_;
    auto device = device_counters(options_.directory);
    std::string rate = "-";
    for (std::unique_lock lock(mutex_); !stopped_.wait_until(lock, stop, shown + kInterval, [] { return false; });) {
      if (stop.stop_requested()) return;
      if (busy_ns_ > 0) rate = fmt::format("{:.2f}", static_cast<double>(bytes_) / static_cast<double>(busy_ns_));
      bytes_ = busy_ns_ = 0;
      lock.unlock();
      const auto seconds = std::chrono::duration<double>(Clock::now() - shown).count();
      shown = Clock::now();
      std::string line =
          fmt::format("{} of {} s: {} GB/s", (shown - begin_) / kInterval, options_.duration.count(), rate);
      if (const auto now = device_counters(options_.directory); now && device) {
        const DeviceCounters moved = *now - *device;
        line += fmt::format(", disk {:.2f} GB/s",
                            static_cast<double>(moved.read_bytes + moved.written_bytes) / seconds / 1e9);
        device = now;
      }
      options_.progress(fmt::format("{}, {}", line, name_));
      lock.lock();
    }
  } catch (...) {
    // A line that cannot be shown must not end the measurement.
  }

  const LongRunOptions& options_;
  const std::string name_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::uint64_t bytes_ = 0, busy_ns_ = 0;  // since the last line
  std::jthread thread_;
};

// Keeps every second sample.
void thin(std::vector<Sample>& samples) {
  for (std::size_t i = 0; 2 * i < samples.size(); ++i) samples[i] = samples[2 * i];
  samples.resize((samples.size() + 1) / 2);
}

// The subject alone; nothing once it has failed.
std::vector<std::size_t> order_while_available(std::size_t subject, const Measured& measured) {
  if (!measured.why.empty()) return {};
  return {subject};
}

// Operations until the time is up, which begins with the first one and not with its preparation.
void run_long(Engine& engine, std::size_t subject, Measured& measured, const LongRunOptions& options,
              const std::string& place) {
  LiveLine line(options, place + measured.description().id());
  const MemoryTouchedOnce no_pauses;
  LongRun run;
  std::size_t stride = 1;
  Clock::time_point begin = Clock::now();
  engine.set_end(begin + options.duration);
  const auto conclude = [&](const Lap& lap) {
    if (!lap.is_complete()) return;
    Sample& sample = measured.samples.back();
    auto end_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
    const std::uint64_t last_end_ns = run.operations.empty() ? 0 : run.operations.back().end_ns;
    const std::uint64_t length_ns =
        std::clamp<std::uint64_t>(sample.elapsed_ns + sample.sync_ns.value_or(0), 1, end_ns - last_end_ns);
    if (run.operations.empty()) {
      begin += std::chrono::nanoseconds(end_ns - length_ns);
      engine.set_end(begin + options.duration);
      end_ns = length_ns;
    }
    run.operations.push_back({end_ns - length_ns, end_ns});
    run.disturbance += lap.disturbance;
    line.ended(measured.description().bytes, run.operations.back());
    sample.position = run.operations.size() - 1;
    if (sample.position % stride != 0) measured.samples.pop_back();
    if (measured.samples.size() >= kSamplesMax) {
      thin(measured.samples);
      stride *= 2;
    }
  };
  engine.run({[&] { return order_while_available(subject, measured); }, conclude});
  if (!run.operations.empty() && measured.why.empty()) measured.long_run = std::move(run);
}

std::uint64_t busy_ns(const LongRun& run) {
  std::uint64_t busy = 0;
  for (const TimedOperation& one : run.operations) busy += one.end_ns - one.begin_ns;
  return busy;
}

double whole_rate(const Measured& measured) {
  const LongRun& run = *measured.long_run;
  return rate_between(run.operations, measured.description().bytes, 0, run.operations.back().end_ns).value_or(0);
}

double part(std::uint64_t of_ns, std::uint64_t all_ns) {
  return all_ns == 0 ? 0 : static_cast<double>(of_ns) / static_cast<double>(all_ns);
}

// Cores that other processes and the hypervisor took.
double cores_of_others(const Disturbance& disturbance) {
  return part(disturbance.other_user_ns + disturbance.steal_ns, disturbance.elapsed_ns);
}

std::string row_of(const Measured& measured) {
  const SteadyState state = judge_steady(measured.long_run->operations, measured.description().bytes);
  const auto gigabytes = [](double rate) { return fmt::format("{:.2f}", rate / 1e9); };
  const auto percent = [](double change) { return fmt::format("{:+.1f}", 100 * change); };
  const Trend& trend = state.trend;
  return fmt::format("{:76} {:>6} {:>8} {:>8} {:>15} {:>7}  {}{}\n", measured.description().id(),
                     gigabytes(whole_rate(measured)), state.rate ? gigabytes(*state.rate) : "-", percent(trend.change),
                     trend.low ? percent(*trend.low) + " to " + percent(*trend.high) : "-",
                     fmt::format("{:.1f}", 100 * state.excursion), verdict_name(state.verdict),
                     state.why.empty() ? "" : ": " + state.why);
}

}  // namespace

void run_for(std::vector<Measured>& subjects, const LongRunOptions& options) {
  verify_subjects(subjects, options.progress, options.stop);
  const auto is_ceiling = [](const Measured& m) { return m.description().subject == "ceiling"; };
  const auto count = subjects.size() - static_cast<std::size_t>(std::ranges::count_if(subjects, is_ceiling));
  SubjectSource source(subjects);
  DisturbanceFilter filter;
  std::size_t number = 0;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    Measured& measured = subjects[i];
    Engine engine(source, filter, {.stop = options.stop}, 1);
    if (!is_ceiling(measured)) {
      run_long(engine, i, measured, options, fmt::format("{} of {}: ", ++number, count));
    } else if (measured.why.empty()) {
      if (options.progress) options.progress(measured.description().id());
      engine.run({[&] {
        return measured.samples.size() < options.ceiling_samples ? order_while_available(i, measured)
                                                                 : std::vector<std::size_t>();
      }});
    }
    if (!measured.why.empty()) measured.samples.clear();
    note_interruption(measured);
  }
}

void note_caches(std::vector<Measured>& subjects, bool warm_requested, std::optional<std::uint64_t> l3_bytes) {
  for (Measured& measured : subjects) {
    RunDescription& d = measured.subject->description();
    if (d.subject == "ceiling") continue;
    if (d.cache == Cache::kWarm && !warm_requested) {
      // Peers have no other state.
      d.notes.push_back(fmt::format("read from the page cache, not from the storage{}",
                                    d.subject == "peer" ? "" : ": --cache cold reads that"));
    }
    if (l3_bytes && d.bytes < 2 * *l3_bytes) {
      d.notes.push_back(fmt::format("{} MiB of data are less than twice the L3 cache of {} MiB: raise --scale",
                                    d.bytes >> 20, *l3_bytes >> 20));
    }
  }
}

nlohmann::json steady_json(const Measured& measured) {
  if (!measured.long_run) return nullptr;
  const LongRun& run = *measured.long_run;
  const std::uint64_t bytes = measured.description().bytes;
  const SteadyState state = judge_steady(run.operations, bytes);
  const ThroughputSeries series = series_of(run.operations, bytes);
  json rates = json::array();
  for (const std::optional<double>& rate : series.rates) rates.push_back(or_null(rate));
  return {{"elapsed_ns", run.operations.back().end_ns},
          {"operations", run.operations.size()},
          {"busy_share", part(busy_ns(run), run.operations.back().end_ns)},
          {"cores_of_others", cores_of_others(run.disturbance)},
          {"rate", whole_rate(measured)},
          {"series", {{"bucket_ns", series.bucket_ns}, {"rates", std::move(rates)}}},
          {"window",
           {{"from_ns", state.window_from_ns},
            {"to_ns", state.window_to_ns},
            {"rate", or_null(state.rate)},
            {"change", state.trend.change},
            {"low", or_null(state.trend.low)},
            {"high", or_null(state.trend.high)},
            {"p", state.trend.p},
            {"excursion", state.excursion},
            {"fit", state.fit}}},
          {"verdict", verdict_name(state.verdict)},
          {"why", state.why}};
}

std::string steady_table(const std::vector<Measured>& subjects) {
  std::string text = fmt::format("{:76} {:>6} {:>8} {:>8} {:>15} {:>7}  {}\n", "what", "GB/s", "2nd half", "change %",
                                 "95 %", "range %", "verdict");
  bool is_unsteady = false;
  bool is_open = false;
  bool is_short = false;
  bool is_disturbed_run = false;
  for (const Measured& measured : subjects) {
    if (measured.description().subject == "ceiling") continue;
    const std::vector<std::string> notes = notes_of(measured);
    if (!measured.long_run) {
      text += fmt::format("{:76} {}\n", measured.description().id(), notes.back());
      continue;
    }
    text += row_of(measured);
    for (const std::string& note : notes) text += fmt::format("  {}\n", note);
    const SteadyVerdict verdict = judge_steady(measured.long_run->operations, measured.description().bytes).verdict;
    is_unsteady = is_unsteady || verdict == SteadyVerdict::kNotSteady;
    is_open = is_open || verdict == SteadyVerdict::kUndecided;
    is_short = is_short || verdict == SteadyVerdict::kTooShort;
    is_disturbed_run = is_disturbed_run || is_disturbed(measured.long_run->disturbance);
  }
  if (is_disturbed_run) text += "the machine was busy: others took more than a tenth of a core\n";
  if (is_unsteady) {
    text +=
        "not steady: the rate of the second half is not one that lasts; raise --duration until it is steady, or "
        "look for what slows down (temperature, a burst cache that fills, other users)\n";
  }
  if (is_open) text += "undecided: raise --duration; undecided is not steady\n";
  if (is_short) text += "too short: the test needs 20 s or more, and 20 operations\n";
  return text;
}

}  // namespace tzmark::bench
