// Samples settings on real files: the codec loads or saves a workload at a setting, in a proved cache state.
//
// Loads at all settings share one file per cache state. A setting moves a small workload before its first sample, and
// its bytes are checked; after renew(), it is the workload itself that is checked. For one thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/rounds.h"
#include "cli/tune/task.h"
#include "subjects/content.h"
#include "subjects/ours.h"
#include "tune/meter.h"

namespace tzmark::bench {

struct MeterOptions {
  TuneTask task = TuneTask::kLoadCold;
  bool to_device = false;             // loads end in GPU memory
  std::string verification = "none";  // of loads, or the hashes that a save stores: none, crc32, both
  Setting standard;                   // measured with the codec's own defaults, which need not be one block for all
  // Called before each step, which is a sample at most; ends the measurement by throwing. May be empty.
  std::function<void()> check;
};

class StorageMeter final : public Meter {
 public:
  // small: the workload on which settings are checked.
  StorageMeter(Workplace& place, SharedContent content, SharedContent small, MeterOptions options);
  ~StorageMeter() override;

  // The rate of a save includes the fsync.
  TuneSample sample(const Setting& setting) override;
  std::chrono::nanoseconds cost() const override;
  void renew() override;

  std::size_t samples() const { return samples_; }

  // Subjects of the task. Prepared or verified by the caller.
  std::unique_ptr<Subject> codec(const Setting& setting, const SharedContent& content) const;
  std::unique_ptr<Subject> raw(const Setting& setting) const;
  // The state that a load by this path needs.
  Cache cache_of(const std::string& io) const;

 private:
  // What a load ends in.
  Target target_of(const Setting& setting) const;
  struct Entry {
    Measured measured;
    std::size_t samples = 0;
    std::optional<std::uint64_t> peak_memory_bytes;
  };

  Entry& entry(const Setting& setting);
  void measure_memory(Entry& entry) const;
  void check() const;

  Workplace& place_;
  const SharedContent content_, small_;
  const MeterOptions options_;
  std::map<Setting, Entry> entries_;
  std::vector<std::string> old_files_;
  bool is_renewed_ = false;
  std::size_t samples_ = 0;
  std::chrono::nanoseconds spent_{};
};

// Seconds that a sample took, with the fsync.
double seconds_of(const Sample& sample);

// The codec's defaults for a task as a setting: what a loader without options does. Creates a file.
Setting default_setting(Workplace& place, const SharedContent& content, TuneTask task,
                        Verification verification = Verification::kNone, bool to_device = false);

}  // namespace tzmark::bench
