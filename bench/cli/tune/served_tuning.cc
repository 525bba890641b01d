// A search over loads of the URL, then rounds of loads, raw ranges and curl; see served_tuning.h.
#include "cli/tune/served_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cli/bench_options.h"
#include "cli/data_size.h"
#include "cli/rounds.h"
#include "harness/cgroup.h"
#include "harness/interruption.h"
#include "subjects/served.h"
#include "tune/meter.h"
#include "tune/space.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr std::uint64_t kOneMib = 1 << 20;
// A load holds its tensors, and frees them before the next one.
constexpr DataCopies kCopiesOfLoad = {.needed = 2, .comfortable = 3};
// Of the budget, for the search; the rest is for what limits the answer.
constexpr double kSearchShare = 0.8;
// A load that has begun within the budget may end so much later.
constexpr std::chrono::seconds kOverrunMax{2};
// Smaller requests, or fewer bytes on the way, would spend the budget on round trips: with 1 MiB in flight, 256 MiB
// take 13 s at a round trip of 50 ms.
constexpr std::uint64_t kBlockBytesMin = kOneMib, kInFlightBytesMin = 8 * kOneMib;

IoSettings moving_for(const Setting& setting) {
  return {.block_bytes = setting.block_bytes, .queue_depth = setting.queue_depth, .threads = setting.threads};
}

// When a load that is still going on ends the search. Of the tuning that is going on; there is one at a time.
std::atomic<Clock::rep> last_end = 0;

// What waits for the server calls: a load may take longer than a person, or the budget, does.
void check_end() {
  Interruption::check();
  if (Clock::now().time_since_epoch().count() < last_end) return;
  throw Error(ErrorCode::kUnavailable, "a load was not complete when the budget was spent");
}

class WaitsEnd {
 public:
  explicit WaitsEnd(Clock::time_point end) {
    last_end = end.time_since_epoch().count();
    set_wait_check(&check_end);
  }
  ~WaitsEnd() { set_wait_check(nullptr); }
  WaitsEnd(const WaitsEnd&) = delete;
  WaitsEnd& operator=(const WaitsEnd&) = delete;
};

// Opens the URL anew for each sample, as a program that starts does.
class ServedMeter final : public Meter {
 public:
  ServedMeter(SharedFile file, Verification verification) : file_(std::move(file)), verification_(verification) {
    const auto subject = served_load(file_, {}, verification_);
    const RunDescription& d = subject->description();
    standard_ = {.io = d.io_actual,
                 .block_bytes = d.block_bytes.value_or(0),
                 .queue_depth = d.queue_depth.value_or(1),
                 .threads = d.threads.value_or(1)};
  }

  // What the codec does without options.
  const Setting& standard() const { return standard_; }
  std::uint64_t retries() const { return retries_; }

  TuneSample sample(const Setting& setting) override {
    Interruption::check();
    const Clock::time_point begin = Clock::now();
    TuneSample result;
    at_setting([&] {
      Measured& at = verified(setting);
      Interruption::check();
      take_sample(at);
      const Sample sample = at.samples.back();
      at.samples.clear();
      const auto bytes = static_cast<double>(at.description().bytes);
      result.seconds_per_byte = static_cast<double>(sample.elapsed_ns) / 1e9 / bytes;
      if (sample.cpu_ns) result.cpu_seconds_per_byte = static_cast<double>(*sample.cpu_ns) / 1e9 / bytes;
      result.disturbance = sample.disturbance;
      if (sample.requests) retries_ += sample.requests->retries;
    });
    ++samples_;
    spent_ += Clock::now() - begin;
    return result;
  }
  nanoseconds cost() const override { return samples_ == 0 ? nanoseconds() : spent_ / samples_; }
  // The file is the server's, and there is no other one.
  void renew() override {}

 private:
  Measured& verified(const Setting& setting) {
    const auto found = subjects_.find(setting);
    if (found != subjects_.end()) return found->second;
    auto subject = served_load(file_, setting == standard_ ? IoSettings() : moving_for(setting), verification_);
    subject->verify();
    return subjects_.emplace(setting, Measured{std::move(subject), {}, {}}).first->second;
  }

  const SharedFile file_;
  const Verification verification_;
  Setting standard_;
  std::map<Setting, Measured> subjects_;
  std::uint64_t retries_ = 0;
  long samples_ = 0;
  nanoseconds spent_{};
};

// Memory decides what may be in flight next to the tensors: a quarter of what is left.
std::uint64_t in_flight_bytes_max(const TuneOptions& options, std::uint64_t file_bytes) {
  const std::uint64_t left = memory_left_bytes().value_or(std::numeric_limits<std::uint64_t>::max());
  if (left / kCopiesOfLoad.needed < file_bytes) {
    throw Error(ErrorCode::kUnavailable, fmt::format("the file has {} MiB, and loads of it do not fit into the {} MiB "
                                                     "of memory that are left",
                                                     file_bytes / kOneMib, left / kOneMib));
  }
  const std::uint64_t allowed = std::max((left - file_bytes) / 4, kInFlightBytesMin);
  return options.memory_limit_bytes != 0 ? std::min(options.memory_limit_bytes, allowed) : allowed;
}

std::vector<Setting> settings_for(const TuneOptions& options, const Setting& standard, std::uint64_t file_bytes) {
  SpaceOptions space;
  space.paths = {{standard.io, /*is_asynchronous=*/true}};
  space.cores = thread_count(0);
  space.memory_limit_bytes = in_flight_bytes_max(options, file_bytes);
  space.workload_bytes = file_bytes;
  space.standard = standard;
  std::vector<Setting> settings = settings_of(space);
  const std::uint64_t in_flight_min = std::min({kInFlightBytesMin, space.memory_limit_bytes, file_bytes});
  std::erase_if(settings, [&](const Setting& setting) {
    return setting != standard && (setting.pages == Pages::kSmall || setting.block_bytes < kBlockBytesMin ||
                                   setting.bytes_in_flight() < in_flight_min);
  });
  return settings;
}

// Loads, raw ranges and curl in the same rounds, at the setting of the answer.
void find_ceiling(const SharedFile& file, const ServedMeter& meter, const TuneOptions& options, Clock::time_point end,
                  const std::function<void(const std::string&)>& step, TaskOutcome& found) {
  constexpr unsigned kRounds = 15;
  const Setting& setting = found.recommended()->setting;
  const IoSettings moving = setting == meter.standard() ? IoSettings() : moving_for(setting);
  std::vector<Measured> subjects(3);
  subjects[0].subject = served_load(file, moving, verification_of(options.verification));
  subjects[1].subject = served_raw(file, moving, Target::kHugePages);
  subjects[2].subject = served_curl(file, moving);
  run_rounds(subjects, {.rounds = kRounds, .seed = options.seed, .progress = step, .stop = [&] {
                          return Interruption::number() != 0 || Clock::now() >= end;
                        }});
  Interruption::check();
  const std::array<std::string, 3> names = {"codec", "raw " + setting.io, "curl"};
  std::array<std::vector<double>, 3> all;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    all[i] = subjects[i].rates();
    if (!all[i].empty()) found.ceiling.measured.emplace_back(names[i], median_interval(all[i]));
  }
  const auto& [codec, raw, curl] = all;
  if (codec.empty() || raw.empty()) return;
  CeilingRates rates;
  rates.io = setting.io;
  rates.codec = median_interval(codec).median;
  rates.raw = median_interval(raw).median;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(codec.size(), raw.size()); ++i) ratios.push_back(codec[i] / raw[i]);
  rates.codec_over_raw = interval_or_range(ratios);
  rates.server = curl.empty() ? "curl was not measured: " + subjects[2].why
                              : fmt::format("curl reaches {:.2f} GB/s with as many of the same requests",
                                            median_interval(curl).median / 1e9);
  found.ceiling.verdict = judge_ceiling(rates);
}

}  // namespace

void tune_served(const TuneOptions& options, Clock::time_point begin,
                 const std::function<void(const std::string&)>& progress, TuneOutcome& outcome) {
  const Interruption interruption;
  const Clock::time_point end = begin + std::chrono::seconds(options.budget_s);
  const WaitsEnd waits_end(end + kOverrunMax);
  Clock::time_point shown;
  const auto step = [&](const std::string& what) {
    Interruption::check();
    if (!progress || Clock::now() - shown < 200ms) return;
    shown = Clock::now();
    progress(fmt::format("{} s left: {}", (std::max<nanoseconds>(end - shown, 0ns) + 999ms) / 1s, what));
  };
  const auto file = std::make_shared<ServedFile>(options.directory, std::numeric_limits<std::uint64_t>::max());
  if (!file->why_not_read().empty()) throw Error(ErrorCode::kUnavailable, file->why_not_read());
  const Workload& workload = file->workload();
  outcome.url = workload.summary;
  outcome.workload_name = outcome.workload_label = workload.name;
  outcome.bytes = workload.data_bytes();
  outcome.tensors = workload.tensors.size();
  TaskOutcome& found = outcome.tasks.emplace_back();
  found.task = TuneTask::kLoadServer;
  ServedMeter meter(file, verification_of(options.verification));
  DisturbanceFilter filter;
  SearchOptions search;
  search.budget = std::chrono::duration_cast<nanoseconds>(kSearchShare * (end - Clock::now()));
  search.seed = options.seed;
  search.memory_limit_bytes = options.memory_limit_bytes;
  search.stop = [] { return Interruption::number() != 0; };
  search.progress = [&](const SearchProgress& now) { step(search_line(found.task, now)); };
  search_settings(meter, settings_for(options, meter.standard(), file->file_bytes()), search, filter, found.search);
  Interruption::check();
  if (meter.retries() > 0) {
    outcome.warnings.push_back(fmt::format("{} requests of the search had to be repeated", meter.retries()));
  }
  if (found.recommended() == nullptr) {
    outcome.warnings.emplace_back("no answer: the budget is too short");
  } else {
    find_ceiling(file, meter, options, end, step, found);
  }
  found.elapsed = Clock::now() - begin;
  outcome.is_complete = found.search.is_complete;
}

}  // namespace tzmark::bench
