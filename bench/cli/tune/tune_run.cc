// The phases in order; see tune_run.h.
#include "cli/tune/tune_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <random>
#include <set>
#include <thread>

#include "cli/bench_options.h"
#include "cli/data_size.h"
#include "cli/rounds.h"
#include "cli/steady.h"
#include "cli/tune/device_points.h"
#include "cli/tune/named_workload.h"
#include "cli/tune/storage_meter.h"
#include "cli/tune/sustained.h"
#include "harness/ceilings.h"
#include "harness/cgroup.h"
#include "harness/gpu_ceilings.h"
#include "harness/interruption.h"
#include "subjects/content.h"
#include "subjects/ours.h"
#include "tune/budget.h"
#include "tune/space.h"
#include "tzmark/device_memory.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr std::uint64_t kMib = 1 << 20;
// Settings are checked on so much data: enough for several transfers of most blocks.
constexpr std::uint64_t kCheckedBytes = 8 * kMib;
constexpr std::uint64_t kPilotBytes = 32 * kMib;
// Files of one size that exist at the same time: for each cache state and for raw transfers, old and new ones.
constexpr std::uint64_t kFiles = 10;
// Copies of the data in memory: tensors, loaded ones, the page cache, and the workloads of the model, which have four
// times as many bytes together.
constexpr DataCopies kCopiesInMemory = {.needed = 6, .comfortable = 10};
// A prediction whose upper bound is so many times the predicted time is not one.
constexpr double kTellingWidth = 2;
constexpr std::uint64_t kContentBytesMax = std::uint64_t{4} << 30;

std::vector<TuneTask> tasks_of(const TuneOptions& options) {
  std::vector<TuneTask> tasks;
  if (options.goal != "save") {
    if (options.cache != "cold") tasks.push_back(TuneTask::kLoadWarm);
    if (options.cache != "warm") tasks.push_back(TuneTask::kLoadCold);
  }
  if (options.goal != "load") tasks.push_back(TuneTask::kSave);
  return tasks;
}

// Steps that take one sample each. What goes wrong ends the run.
class Steps final : public Source {
 public:
  using Step = std::function<SourceSample()>;

  explicit Steps(std::vector<Step> steps) : steps_(std::move(steps)) {}

  SourceSample take(std::size_t i) override { return steps_[i](); }

 private:
  const std::vector<Step> steps_;
};

Steps::Step sample_at(Meter& meter, const Setting& setting) {
  return [&meter, setting] {
    const TuneSample taken = meter.sample(setting);
    return SourceSample{taken.seconds_per_byte, taken.disturbance};
  };
}

Steps::Step sample_of(Measured& measured) {
  return [&measured] {
    take_sample(measured);
    const Sample sample = measured.samples.back();
    measured.samples.clear();
    return SourceSample{seconds_of(sample) / static_cast<double>(measured.description().bytes), sample.disturbance};
  };
}

class Tuning {
 public:
  Tuning(const TuneOptions& options, Clock::time_point begin, const std::function<void(const std::string&)>& progress,
         TuneOutcome& outcome)
      : options_(options),
        progress_(progress),
        outcome_(outcome),
        budget_end_(begin + std::chrono::seconds(options.budget_s)),
        place_(options.directory) {}

  void run() {
    const Interruption interruption;
    if (!pilot_.note.empty()) outcome_.warnings.push_back(pilot_.note);
    std::vector<TuneTask> tasks = tasks_of(options_);
    make_contents(tasks);
    find_paths();
    bool is_complete = true;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      try {
        run_task(tasks[i], phase_times(left(), tasks.size() - i));
      } catch (const Error& error) {
        skip(tasks[i], error);
      }
      is_complete = is_complete && outcome_.tasks.back().search.is_complete;
      place_.clear();
    }
    predict();
    if (const MachineConditions& machine = filter_.conditions(); machine.was_busy) {
      outcome_.warnings.push_back(
          fmt::format("the machine was busy: other processes disturbed {} of {} laps, which had to count",
                      machine.disturbed_laps, machine.laps));
    }
    if (options_.sustain_s > 0) sustain();
    if (failure_) std::rethrow_exception(failure_);
    outcome_.is_complete = is_complete;
  }

 private:
  nanoseconds left() const { return std::max<nanoseconds>(budget_end_ - Clock::now(), 0ns); }

  // Shows a line, and ends the run after a signal.
  void step(const std::string& what) {
    Interruption::check();
    if (!progress_ || Clock::now() - shown_ < 200ms) return;
    shown_ = Clock::now();
    progress_(fmt::format("{} s left: {}", (left() + 999ms) / 1s, what));
  }

  // Leaves out a task, or the rest of it, so that the others go on. REQUIRES: called while the error is handled.
  void skip(TuneTask task, const Error& error) {
    if (means_wrong_bytes(error)) throw;
    outcome_.skipped.push_back({task, error.message()});
    if (error.error_class() == ErrorClass::kUnavailable) {
      outcome_.warnings.push_back(fmt::format("{}: not measured: {}", name_of(task), error.message()));
    } else if (!failure_) {
      // Its text becomes a warning when it ends the run.
      failure_ = std::current_exception();
    }
  }

  // Runs a step of each task. Tasks that cannot run here are left out, except those that were asked for by name.
  template <typename Step>
  void for_each_possible(std::vector<TuneTask>& tasks, const Step& try_task) {
    std::erase_if(tasks, [&](TuneTask task) {
      try {
        try_task(task);
        return false;
      } catch (const Error& error) {
        const bool is_named = task != TuneTask::kSave && options_.cache != "both";
        if (is_named && error.error_class() == ErrorClass::kUnavailable) throw;
        skip(task, error);
        return true;
      }
    });
    if (!tasks.empty()) return;
    if (failure_) std::rethrow_exception(failure_);
    throw Error(ErrorCode::kUnavailable, outcome_.skipped.front().reason);
  }

  // Whether the default setting can be measured in the state of the page cache that the task needs.
  void find_standard(TuneTask task) {
    step("preparing");
    if (task == TuneTask::kLoadCold && outcome_.probe.is_memory) {
      const std::optional<Mount>& mount = outcome_.probe.mount;
      throw Error(ErrorCode::kUnavailable,
                  fmt::format("{} is on {}, which keeps files in memory: there is no cold load to tune",
                              options_.directory, mount ? mount->file_system : "a file system"));
    }
    standards_[task] = default_setting(place_, small_, task, verification_of(options_.verification), to_device());
  }

  // Chooses the amount of data by what the default setting moves in each task.
  void make_contents(std::vector<TuneTask>& tasks) {
    step("preparing");
    small_ = std::make_shared<TensorContent>(make_workload(options_.workload, scale_at_most(kCheckedBytes)));
    if (options_.scale_bytes != 0) {
      content_ = std::make_shared<TensorContent>(make_workload(options_.workload, options_.scale_bytes));
      for_each_possible(tasks, [&](TuneTask task) { find_standard(task); });
    } else {
      choose_content(tasks);
    }
    limit_bytes_in_flight();
    outcome_.workload_name = options_.workload;
    outcome_.workload_label = content_->workload().label();
    outcome_.bytes = content_->data_bytes();
    outcome_.tensors = content_->table().size();
    place_.clear();
  }

  std::uint64_t scale_at_most(std::uint64_t bytes) const { return std::min(bytes, pilot_.bytes); }

  void choose_content(std::vector<TuneTask>& tasks) {
    content_ = std::make_shared<TensorContent>(make_workload(options_.workload, pilot_.bytes));
    std::vector<double> rates;
    for_each_possible(tasks, [&](TuneTask task) {
      find_standard(task);
      StorageMeter meter(place_, content_, small_, meter_options(task));
      // The first one also pays for what is not there yet.
      static_cast<void>(meter.sample(standards_[task]));
      rates.push_back(1 / meter.sample(standards_[task]).seconds_per_byte);
    });
    const std::uint64_t room =
        std::min({kContentBytesMax, memory_left_bytes().value_or(0) / kCopiesInMemory.comfortable, room_per_file()});
    const auto [slowest, fastest] = std::ranges::minmax(rates);
    const std::uint64_t bytes = sample_bytes(left() / static_cast<long>(tasks.size()), slowest, fastest,
                                             std::max(room, std::min(kSampleBytesMin, pilot_.bytes)));
    content_ = std::make_shared<TensorContent>(make_workload(options_.workload, bytes));
  }

  // Where a cgroup limits memory, deep queues of large blocks would end the run.
  void limit_bytes_in_flight() {
    const CgroupLimits limits = cgroup_limits();
    if (!limits.memory_bytes) return;
    const std::uint64_t left = limits.memory_left_bytes.value_or(*limits.memory_bytes);
    const std::uint64_t held = kCopiesInMemory.needed * content_->data_bytes();
    const std::uint64_t allowed = std::max((left - std::min(left, held)) / 4, kMib);
    in_flight_that_fits_ = allowed;
    if (options_.memory_limit_bytes != 0 && options_.memory_limit_bytes <= allowed) return;
    in_flight_bytes_max_ = allowed;
    outcome_.warnings.push_back(
        fmt::format("settings with more than {} MiB in flight are not tried: {}", allowed / kMib, limit_text(limits)));
  }

  // Of the room on the storage; without bound where that is unknown.
  std::uint64_t room_per_file() const { return outcome_.probe.free_bytes.value_or(~std::uint64_t{0}) / kFiles; }

  MeterOptions meter_options(TuneTask task) {
    return {.task = task,
            .to_device = to_device(),
            .verification = options_.verification,
            .standard = standards_[task],
            .check = [] { Interruption::check(); }};
  }

  bool to_device() const { return options_.memory == "device"; }

  // Paths that this file system and machine offer.
  void find_paths() {
    const std::string name = place_.file(small_, {}, Cache::kNone);
    for (const IoPath& path : io_paths()) {
      const bool is_named = std::ranges::find(options_.io, path.name) != options_.io.end();
      if (!is_named && (!options_.io.empty() || !path.variant_of.empty())) continue;
      if ((path.traits.moves_device_memory && !to_device()) || path.traits.is_remote) continue;
      std::string why = path.why_unavailable();
      try {
        if (why.empty()) {
          const auto file = open_file(name, OpenMode::kRead, path.name);
          paths_.push_back({std::string(path.name), file->is_asynchronous()});
        }
      } catch (const Error& error) {
        why = error.message();
      }
      if (why.empty()) continue;
      why = fmt::format("I/O path {}: {}", path.name, why);
      if (is_named) throw Error(ErrorCode::kUnavailable, why);
      outcome_.warnings.push_back("not tried: " + why);
    }
  }

  std::vector<Setting> settings_for(TuneTask task) {
    SpaceOptions space;
    space.paths = paths_;
    space.cores = thread_count(0);
    space.align_bytes = std::max<std::uint64_t>(1, outcome_.probe.direct_align_bytes.value_or(1));
    space.memory_limit_bytes = in_flight_bytes_max_;
    space.workload_bytes = content_->data_bytes();
    space.standard = standards_[task];
    // The memory of a save is the caller's, and that of copies to a GPU is pinned.
    if (task == TuneTask::kSave || to_device()) space.pages = {Pages::kHuge};
    return settings_of(space);
  }

  void run_task(TuneTask task, const PhaseTimes& times) {
    const Clock::time_point begin = Clock::now();
    TaskOutcome& found = outcome_.tasks.emplace_back();
    found.task = task;
    StorageMeter meter(place_, content_, small_, meter_options(task));
    try {
      search(meter, found, times.search);
      if (found.recommended() != nullptr) {
        run_part(task, "ceilings", [&] { find_ceiling(meter, found, begin + times.ceilings); });
        run_part(task, "advice", [&] { try_advice(meter, found, begin + times.advice); });
        run_part(task, "model", [&] { fit_model(meter, found, begin + times.model); });
      }
    } catch (...) {
      found.elapsed = Clock::now() - begin;
      throw;
    }
    found.elapsed = Clock::now() - begin;
  }

  // A part after the search, whose answer stands without it.
  template <typename Part>
  void run_part(TuneTask task, std::string_view name, const Part& part) {
    try {
      part();
    } catch (const Error& error) {
      if (error.error_class() != ErrorClass::kUnavailable) throw;
      const std::string why = fmt::format("{} not measured: {}", name, error.message());
      outcome_.skipped.push_back({task, why});
      outcome_.warnings.push_back(fmt::format("{}: {}", name_of(task), why));
    }
  }

  void search(StorageMeter& meter, TaskOutcome& found, nanoseconds budget) {
    SearchOptions options;
    options.budget = budget;
    options.seed = options_.seed;
    options.memory_limit_bytes = options_.memory_limit_bytes;
    options.stop = [] { return Interruption::number() != 0; };
    options.progress = [&](const SearchProgress& progress) { step(search_line(found.task, progress)); };
    search_settings(meter, settings_for(found.task), options, filter_, found.search);
    Interruption::check();
    const TunedSetting& standard = found.search.settings[found.search.standard];
    if (!found.search.recommended) {
      outcome_.warnings.push_back(fmt::format("{}: no answer: {}", name_of(found.task),
                                              standard.failed.empty() ? "the budget is too short" : standard.failed));
    }
  }

  // Rates of the codec and of raw transfers in turn, of the device and of the cores.
  void find_ceiling(StorageMeter& meter, TaskOutcome& found, Clock::time_point end) {
    const Setting& setting = found.recommended()->setting;
    const std::string what = fmt::format("{}: ceilings", name_of(found.task));
    const auto left_here = [&] { return std::max<nanoseconds>(end - Clock::now(), 0ns); };
    if (left_here() == 0ns) return;
    step(what);
    CeilingRates rates;
    rates.is_warm = found.task == TuneTask::kLoadWarm;
    rates.io = setting.io;
    const auto add = [&](std::string name, std::vector<double> samples) {
      if (samples.empty()) return std::optional<double>();
      const Interval rate = median_interval(std::move(samples));
      found.ceiling.measured.emplace_back(std::move(name), rate);
      return std::optional(rate.median);
    };
    const Clock::time_point paired_end = Clock::now() + left_here() / 3;
    std::vector<double> codec, raw;
    measure_pairs(meter, setting, what, paired_end, codec, raw);
    rates.codec = add("codec", codec).value_or(0);
    rates.raw = add("raw " + setting.io, raw);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < raw.size(); ++i) ratios.push_back(codec[i] / raw[i]);
    if (!ratios.empty()) rates.codec_over_raw = interval_or_range(ratios);
    measure_cores(setting, rates, add, left_here() / 8);
    if (to_device()) measure_bus(rates, add, left_here() / 8);
    if (!rates.is_warm) {
      measure_device_points(
          place_, outcome_.probe, *content_, found.task,
          {.codec_rate = rates.codec,
           .file_bytes_max = room_per_file(),
           .in_flight_bytes_max = in_flight_that_fits_,
           .end = end},
          [&](std::uint64_t in_flight) {
            step(in_flight == 0 ? what : fmt::format("{}, {} MiB in flight", what, in_flight / kMib));
          },
          [&](const DevicePoint& point) {
            rates.device.push_back(point);
            add(fmt::format("device, {} MiB in flight", point.in_flight_bytes / kMib), {point.rate});
          });
    }
    found.ceiling.verdict = judge_ceiling(rates);
  }

  void measure_pairs(StorageMeter& meter, const Setting& setting, const std::string& what, Clock::time_point end,
                     std::vector<double>& codec, std::vector<double>& raw) {
    constexpr std::size_t kPairsMax = 25;
    Measured measured{meter.raw(setting), {}, {}};
    bool has_raw = true;
    try {
      measured.subject->verify();
    } catch (const Error& error) {
      if (error.error_class() != ErrorClass::kUnavailable) throw;
      has_raw = false;
    }
    Steps steps({sample_at(meter, setting), sample_of(measured)});
    Engine engine(steps, filter_, {}, 1);
    std::size_t pairs = 0;
    engine.run({[&]() -> std::vector<std::size_t> {
      if (pairs == kPairsMax || (pairs > 0 && Clock::now() >= end)) return {};
      ++pairs;
      step(what);
      return has_raw ? std::vector<std::size_t>{1, 0} : std::vector<std::size_t>{0};
    }});
    for (const SampleLog::Entry& one : engine.log().entries()) {
      (one.source == 0 ? codec : raw).push_back(1 / one.seconds_per_byte);
    }
  }

  template <typename Add>
  void measure_cores(const Setting& setting, CeilingRates& rates, const Add& add, nanoseconds time) {
    constexpr std::size_t kRepetitions = 5;
    const bool is_hashing = options_.verification != "none";
    const Rung hash = options_.verification == "both" ? Rung::kSha256Lanes : Rung::kCrc32;
    Ladder ladder(std::clamp(setting.threads, 1U, thread_count(0)));
    const nanoseconds each = std::clamp<nanoseconds>(time / (kRepetitions * (is_hashing ? 2 : 1)), 5ms, 100ms);
    std::vector<double> copies, hashes;
    for (std::size_t i = 0; i < kRepetitions; ++i) {
      Interruption::check();
      copies.push_back(ladder.measure(Rung::kMemcpy, each));
      if (is_hashing) hashes.push_back(ladder.measure(hash, each));
    }
    rates.memory_copy = add("memory copy", copies);
    rates.hashing = add(std::string(rung_name(hash)), hashes);
  }

  template <typename Add>
  static void measure_bus(CeilingRates& rates, const Add& add, nanoseconds time) {
    constexpr std::size_t kRepetitions = 5, kBytes = std::size_t{256} << 20;
    const nanoseconds each = std::clamp<nanoseconds>(time / kRepetitions, 5ms, 100ms);
    std::vector<double> copies;
    for (std::size_t i = 0; i < kRepetitions; ++i) {
      Interruption::check();
      try {
        copies.push_back(measure_rate(GpuRung::kCopy, each, kBytes));
      } catch (const Error& error) {
        // A GPU in use may have no room for it.
        if (error.code() != ErrorCode::kResource) throw;
        return;
      }
    }
    rates.bus = add("pinned copy to the GPU", copies);
  }

  // Advice for this task, with its effect where it can be tried.
  void try_advice(StorageMeter& meter, TaskOutcome& found, Clock::time_point end) {
    TaskAnswer answer;
    answer.task = name_of(found.task);
    answer.recommended = found.recommended()->setting;
    answer.bytes = content_->data_bytes();
    for (const TunePath& path : paths_) answer.paths.push_back(path.name);
    std::mt19937_64 random(options_.seed);
    for (Advice& advice : advise(outcome_.probe, {&answer, 1})) {
      // Copies to a GPU leave from pinned memory, whose pages are not the program's to choose.
      if (to_device() && advice.trial && advice.trial->with.pages != advice.trial->without.pages) continue;
      AdviceOutcome& tried = outcome_.advice.emplace_back(AdviceOutcome{std::move(advice), {}});
      if (!tried.advice.trial || Clock::now() >= end) continue;
      try {
        tried.effect = effect_of(meter, *tried.advice.trial, end, random);
      } catch (const Error& error) {
        if (error.error_class() != ErrorClass::kUnavailable) throw;
      }
      // What makes this machine slower is no advice.
      if (tried.effect && tried.effect->high < 1) outcome_.advice.pop_back();
    }
  }

  // Laps of both settings, in one order and in the reverse one, so that drift cancels.
  std::optional<RatioInterval> effect_of(StorageMeter& meter, const Trial& trial, Clock::time_point end,
                                         std::mt19937_64& random) {
    constexpr std::size_t kLapsMax = 22;
    SequentialRatio ratio;
    Steps steps({sample_at(meter, trial.without), sample_at(meter, trial.with)});
    Engine engine(steps, filter_, {.end = end}, 1);
    const auto next = [&]() -> std::vector<std::size_t> {
      if (ratio.pairs() == kLapsMax) return {};
      step("trying advice");
      const std::size_t first = random() & 1;
      return {first, 1 - first, 1 - first, first};
    };
    engine.run({next, [&](const Lap& lap) {
                  double log_ratio = 0;
                  for (const LapSample& sample : lap.samples) {
                    log_ratio += (sample.source == 1 ? -0.5 : 0.5) * std::log(sample.seconds_per_byte);
                  }
                  static_cast<void>(ratio.add(log_ratio));
                }});
    ratio.finish();
    return ratio.pairs() == 0 ? std::nullopt : std::optional(ratio.interval());
  }

  // Workloads of different sizes and numbers of tensors at the recommended setting, in rounds.
  void fit_model(StorageMeter& meter, TaskOutcome& found, Clock::time_point end) {
    constexpr std::size_t kRoundsMin = 3, kRoundsMax = 15, kPointsMin = 4;
    // Preparing and measuring all points takes as long as so many samples of the largest one.
    constexpr double kSamples = 24;
    constexpr std::uint64_t kLeastBytes = 4 * kMib;  // below, all points are of about one size
    const double samples = std::chrono::duration<double>(end - Clock::now()) / meter.cost();
    const auto bytes = static_cast<std::uint64_t>(static_cast<double>(content_->data_bytes()) *
                                                  std::clamp(samples / kSamples, 0.0, 1.0));
    struct Wanted {
      std::string name;
      std::uint64_t bytes;
    };
    if (bytes < std::min(kLeastBytes, content_->data_bytes() / 2)) return no_model(found);
    const std::string other = options_.workload == "pythia-1.4b" ? "gpt2" : "pythia-1.4b";
    // Wide apart in bytes per tensor and in bytes; the first four suffice. Copying one huge tensor, all of it aligned
    // alike, takes less time per byte than copying the tensors of a model.
    const Wanted wanted[] = {{"one-huge", kMib},       {"many-tiny", bytes / 3}, {options_.workload, bytes},
                             {other, bytes},           {"mixed", bytes / 2},     {options_.workload, bytes / 4},
                             {"many-tiny", bytes / 8}, {other, bytes * 3 / 5}};
    std::vector<Measured> subjects;
    const Setting& setting = found.recommended()->setting;
    const Clock::time_point begin = Clock::now();
    nanoseconds longest{};
    for (const Wanted& one : wanted) {
      const Clock::time_point point_begin = Clock::now();
      // Half of the time is for the rounds.
      if (point_begin + longest >= begin + (end - begin) / 2) break;
      step(fmt::format("{}: model, {}", name_of(found.task), one.name));
      const auto content = model_content(one.name, std::max(one.bytes, kMib));
      if (!content) continue;
      subjects.push_back({meter.codec(setting, content), {}, {}});
      subjects.back().subject->verify();
      ModelPoint& point = found.points.emplace_back();
      const std::uint64_t point_bytes = content->data_bytes();
      point.workload = fmt::format("{}/{}KiB", one.name, point_bytes >> 10);
      point.cost = {content->table().size(), point_bytes, {}};
      longest = std::max<nanoseconds>(longest, Clock::now() - point_begin);
    }
    if (subjects.size() < kPointsMin) return no_model(found);
    std::vector<Steps::Step> samples_of;
    for (Measured& subject : subjects) samples_of.push_back(sample_of(subject));
    Steps steps(std::move(samples_of));
    Engine engine(steps, filter_, {}, 1);
    nanoseconds round_length{};
    Clock::time_point round_begin = Clock::now();
    std::size_t taken = 0;
    const auto next = [&]() -> std::vector<std::size_t> {
      if (taken % subjects.size() == 0) {
        const Clock::time_point now = Clock::now();
        if (taken > 0) round_length = now - std::exchange(round_begin, now);
        if (taken / subjects.size() == kRoundsMax || now + round_length > end) return {};
      }
      step(fmt::format("{}: model, round {}", name_of(found.task), taken / subjects.size() + 1));
      return {taken++ % subjects.size()};
    };
    engine.run({next});
    if (taken / subjects.size() < kRoundsMin) return no_model(found);
    for (std::size_t i = 0; i < subjects.size(); ++i)
      add_seconds(engine.log(), i, subjects[i].description().bytes, kRoundsMin, found.points[i].cost);
    std::vector<CostPoint> points;
    for (const ModelPoint& point : found.points) points.push_back(point.cost);
    found.model = CostModel::fit(points);
  }

  // By the rule of the search: a prediction is of a machine that others do not disturb, or of one that is always busy.
  // All samples count if few are left.
  static void add_seconds(const SampleLog& log, std::size_t subject, std::uint64_t bytes, std::size_t least,
                          CostPoint& point) {
    std::vector<double> all;
    for (const SampleLog::Entry& one : log.entries()) {
      if (one.source != subject) continue;
      all.push_back(one.seconds_per_byte * static_cast<double>(bytes));
      if (one.result == LapResult::kCounts) point.seconds.push_back(all.back());
    }
    if (point.seconds.size() < least) point.seconds = std::move(all);
  }

  void no_model(TaskOutcome& found) {
    found.points.clear();
    outcome_.warnings.push_back(
        fmt::format("{}: no model: the budget is too short to measure several workloads", name_of(found.task)));
  }

  // Nothing for a workload that cannot be so small.
  std::shared_ptr<const TensorContent> model_content(const std::string& name, std::uint64_t bytes) const {
    try {
      return std::make_shared<TensorContent>(make_workload(name, bytes));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      return nullptr;
    }
  }

  void predict() {
    for (const std::string& text : options_.predictions) {
      const NamedWorkload workload = parse_named_workload(text);
      if (outcome_.probe.memory_bytes && workload.bytes > *outcome_.probe.memory_bytes) {
        outcome_.warnings.push_back(fmt::format(
            "{} has {} MiB, more than the {} MiB of memory here: its predicted times are those of a machine "
            "that can hold it",
            workload.text, workload.bytes / kMib, *outcome_.probe.memory_bytes / kMib));
      }
      for (const TaskOutcome& found : outcome_.tasks) {
        if (!found.model) continue;
        const CostPrediction time = found.model->predict(workload.tensors, workload.bytes);
        outcome_.predictions.push_back({workload.text, found.task, workload.tensors, workload.bytes, time});
        // Far beyond what was measured, the fit may even say that bytes cost nothing.
        if (time.high > kTellingWidth * time.seconds) {
          outcome_.warnings.push_back(
              fmt::format("{}: the prediction of {} tells nothing: the measured workloads are too small or too few; a "
                          "larger --scale or --budget helps",
                          name_of(found.task), workload.text));
        }
      }
    }
  }

  // The recommended setting of each task, for a long time.
  void sustain() {
    for (TaskOutcome& found : outcome_.tasks) {
      if (found.recommended() == nullptr) continue;
      const Setting setting = found.recommended()->setting;
      std::vector<Measured> one(1);
      one[0].subject = StorageMeter(place_, content_, small_, meter_options(found.task)).codec(setting, content_);
      LongRunOptions options;
      options.duration = std::chrono::seconds(options_.sustain_s);
      options.directory = options_.directory;
      options.stop = [] { return Interruption::number() != 0; };
      options.progress = progress_;
      run_for(one, options);
      if (one[0].long_run && !one[0].long_run->operations.empty()) {
        found.sustained = judge_sustained(one[0]);
      } else if (!one[0].why.empty()) {
        outcome_.warnings.push_back(fmt::format("{}: no long run: {}", name_of(found.task), one[0].why));
      }
      place_.clear();
      Interruption::check();
    }
  }

  const TuneOptions& options_;
  const std::function<void(const std::string&)>& progress_;
  TuneOutcome& outcome_;
  const Clock::time_point budget_end_;
  Workplace place_;
  const DataSize pilot_ = data_size(options_.scale_bytes, kPilotBytes, kCopiesInMemory, cgroup_limits());
  std::uint64_t in_flight_bytes_max_ = options_.memory_limit_bytes;  // of settings; 0: no limit
  std::uint64_t in_flight_that_fits_ = 0;  // into the memory that a cgroup allows; 0: no limit
  SharedContent content_, small_;
  std::map<TuneTask, Setting> standards_;
  std::vector<TunePath> paths_;
  std::exception_ptr failure_;  // the first one that is no lack of this machine
  DisturbanceFilter filter_;
  Clock::time_point shown_;
};

}  // namespace

std::string search_line(TuneTask task, const SearchProgress& progress) {
  std::string line = fmt::format("{}: {}", name_of(task), progress.what);
  if (progress.best_rate) line += fmt::format(", best {:.2f} GB/s", *progress.best_rate / 1e9);
  return line;
}

std::vector<double> rates_of(const std::vector<TuneSample>& samples) {
  std::vector<double> rates;
  for (const TuneSample& sample : samples) rates.push_back(1 / sample.seconds_per_byte);
  return rates;
}

void run_tune(const TuneOptions& options, std::chrono::steady_clock::time_point begin,
              const std::function<void(const std::string&)>& progress, TuneOutcome& outcome) {
  for (const std::string& name : options.io) {
    if (std::ranges::none_of(io_paths(), [&](const IoPath& path) { return path.name == name; })) {
      throw Error(ErrorCode::kUsage, fmt::format("there is no I/O path '{}'; tzmark bench --list-io lists them", name));
    }
    if (path_traits(name).moves_device_memory && options.memory != "device") {
      throw Error(ErrorCode::kUnavailable, fmt::format("the path {} moves GPU memory only: --memory device", name));
    }
    if (path_traits(name).is_remote) {
      throw Error(ErrorCode::kUnavailable, fmt::format("the path {} reads URLs: give one in place of DIR", name));
    }
  }
  if (options.memory == "device") {
    if (const std::string why = DeviceMemory::why_unavailable(); !why.empty()) {
      throw Error(ErrorCode::kUnavailable, why);
    }
  }
  for (const std::string& text : options.predictions) static_cast<void>(parse_named_workload(text));
  static_cast<void>(
      make_workload(options.workload, options.scale_bytes != 0 ? std::optional(options.scale_bytes) : std::nullopt));
  outcome.probe = probe_storage(options.directory);
  outcome.warnings = outcome.probe.warnings;
  const std::uint64_t least = options.scale_bytes != 0 ? options.scale_bytes : kPilotBytes;
  require_room(outcome.probe, kFiles * least);
  Tuning(options, begin, progress, outcome).run();
}

}  // namespace tzmark::bench
