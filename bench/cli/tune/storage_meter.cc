// Makes a subject per setting; see storage_meter.h.
#include "cli/tune/storage_meter.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/bench_options.h"
#include "harness/free_memory.h"
#include "harness/peak_memory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Files of loads hold both hashes: hashes that are not verified cost a load almost nothing.
FileFormat stored_format(TuneTask task, const std::string& verification) {
  if (task != TuneTask::kSave) return {};
  return {.layout = Layout::kV4, .crc32 = verification != "none", .sha256 = verification == "both", .encrypted = false};
}

IoSettings moving_of(const Setting& setting) {
  return {.io = setting.io,
          .block_bytes = setting.block_bytes,
          .queue_depth = setting.queue_depth,
          .threads = setting.threads};
}

}  // namespace

double seconds_of(const Sample& sample) {
  return static_cast<double>(sample.elapsed_ns + sample.sync_ns.value_or(0)) / 1e9;
}

StorageMeter::StorageMeter(Workplace& place, SharedContent content, SharedContent small, MeterOptions options)
    : place_(place), content_(std::move(content)), small_(std::move(small)), options_(std::move(options)) {}

StorageMeter::~StorageMeter() {
  std::error_code ignored;
  for (const std::string& name : old_files_) std::filesystem::remove(name, ignored);
}

Cache StorageMeter::cache_of(const std::string& io) const {
  if (options_.task == TuneTask::kLoadWarm) return Cache::kWarm;
  return path_traits(io).bypasses_cache ? Cache::kDirect : Cache::kCold;
}

std::unique_ptr<Subject> StorageMeter::codec(const Setting& setting, const SharedContent& content) const {
  IoSettings moving = moving_of(setting);
  if (setting == options_.standard) moving = {.io = setting.io};
  const FileFormat stored = stored_format(options_.task, options_.verification);
  if (options_.task == TuneTask::kSave) return codec_write(place_, content, stored, moving);
  return codec_read(place_, content, stored, moving,
                    {.verification = verification_of(options_.verification),
                     .target = target_of(setting),
                     .cache = cache_of(setting.io)});
}

std::unique_ptr<Subject> StorageMeter::raw(const Setting& setting) const {
  const IoSettings moving = moving_of(setting);
  if (options_.task == TuneTask::kSave) return raw_write(place_, content_, moving);
  if (path_traits(setting.io).moves_device_memory) return device_read(place_, content_, moving);
  // On its way to a GPU, data passes through memory that is reused.
  return raw_read(place_, content_, moving, options_.to_device ? Target::kSink : target_of(setting),
                  cache_of(setting.io));
}

Target StorageMeter::target_of(const Setting& setting) const {
  if (options_.to_device) return Target::kDevice;
  return setting.pages == Pages::kHuge ? Target::kHugePages : Target::kSmallPages;
}

void StorageMeter::check() const {
  if (options_.check) options_.check();
}

StorageMeter::Entry& StorageMeter::entry(const Setting& setting) {
  const auto found = entries_.find(setting);
  if (found != entries_.end()) return found->second;
  auto subject = codec(setting, content_);
  if (is_renewed_) {
    subject->verify();
  } else {
    codec(setting, small_)->verify();
    check();
    subject->prepare();
  }
  check();
  return entries_.emplace(setting, Entry{{std::move(subject), {}, {}}, 0, {}}).first->second;
}

// What the codec holds besides the tensors, in a run that is not timed.
void StorageMeter::measure_memory(Entry& entry) const {
  // Pinned memory is kept for later loads, so that this one would take none.
  if (options_.to_device) return;
  try {
    // Memory that is touched before the run would count as the codec's.
    const MemoryTouchedOnce untimed(~std::uint64_t{0});
    PeakMemory peak;
    static_cast<void>(entry.measured.subject->run());
    entry.measured.subject->remove_output();
    const std::uint64_t anonymous = peak.stop().anonymous_bytes;
    const std::uint64_t tensors = options_.task == TuneTask::kSave ? 0 : content_->data_bytes();
    entry.peak_memory_bytes = anonymous - std::min(anonymous, tensors);
  } catch (const Error& error) {
    // A kernel that cannot tell leaves the figure out.
    if (error.error_class() != ErrorClass::kUnavailable) throw;
  }
}

TuneSample StorageMeter::sample(const Setting& setting) {
  // A setting that was sampled this often is a candidate, whose memory is worth an untimed run.
  constexpr std::size_t kMemoryAfter = 4;
  check();
  const Clock::time_point begin = Clock::now();
  TuneSample result;
  at_setting([&] {
    Entry& at = entry(setting);
    take_sample(at.measured);
    // A search saves at hundreds of settings, each in a file of its own, for which there need not be room.
    at.measured.subject->remove_output();
    const Sample sample = at.measured.samples.back();
    at.measured.samples.clear();
    const auto bytes = static_cast<double>(at.measured.description().bytes);
    result.seconds_per_byte = seconds_of(sample) / bytes;
    if (sample.cpu_ns) result.cpu_seconds_per_byte = static_cast<double>(*sample.cpu_ns) / 1e9 / bytes;
    result.disturbance = sample.disturbance;
    if (++at.samples == kMemoryAfter) measure_memory(at);
    result.peak_memory_bytes = at.peak_memory_bytes;
  });
  ++samples_;
  spent_ += Clock::now() - begin;
  return result;
}

std::chrono::nanoseconds StorageMeter::cost() const {
  return samples_ == 0 ? std::chrono::nanoseconds() : spent_ / static_cast<long>(samples_);
}

void StorageMeter::renew() {
  std::error_code ignored;
  for (const std::string& name : std::exchange(old_files_, {})) std::filesystem::remove(name, ignored);
  entries_.clear();
  // The old files stay until the next time, so that the new ones cannot take their place.
  old_files_ = place_.forget();
  is_renewed_ = true;
}

Setting default_setting(Workplace& place, const SharedContent& content, TuneTask task, Verification verification,
                        bool to_device) {
  std::unique_ptr<Subject> subject;
  if (task == TuneTask::kSave) {
    subject = codec_write(place, content, {}, {});
    subject->prepare();
    static_cast<void>(subject->run());
  } else {
    subject = codec_read(place, content, {}, {},
                         {.verification = verification,
                          .target = to_device ? Target::kDevice : Target::kHugePages,
                          .cache = task == TuneTask::kLoadWarm ? Cache::kWarm : Cache::kCold});
    subject->prepare();
  }
  const RunDescription& d = subject->description();
  return {.io = d.io_actual,
          .block_bytes = d.block_bytes.value_or(0),
          .queue_depth = d.queue_depth.value_or(1),
          .threads = d.threads.value_or(1),
          .pages = Pages::kHuge};
}

}  // namespace tzmark::bench
