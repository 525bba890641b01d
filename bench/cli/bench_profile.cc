// Chooses the settings of a profile by operation and cache; see bench_profile.h.
#include "cli/bench_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

struct MeasuredTask {
  std::string name;
  const std::optional<ProfileSettings>* settings;
};

// What the options measure. Reads of either cache state take the settings of the other if theirs are absent, as loads
// do; with --cache auto, the paths decide the state, so both must agree.
std::vector<MeasuredTask> measured_tasks(const Profile& profile, const BenchOptions& options) {
  const auto measures = [&](std::string_view operation) {
    return std::ranges::find(options.operations, operation) != options.operations.end();
  };
  std::vector<MeasuredTask> tasks;
  const bool takes_warm = options.cache != "cold" && profile.load_warm;
  const bool takes_cold = options.cache != "warm" && profile.load_cold;
  if (measures("read")) {
    if (takes_warm || !profile.load_cold) tasks.push_back({"load-warm", &profile.load_warm});
    if (takes_cold || (!takes_warm && profile.load_cold)) tasks.push_back({"load-cold", &profile.load_cold});
  }
  if (measures("write")) tasks.push_back({"save", &profile.save});
  return tasks;
}

ProfileSettings common_settings(const std::vector<MeasuredTask>& tasks) {
  for (const MeasuredTask& task : tasks) {
    if (!*task.settings) throw Error(ErrorCode::kUsage, fmt::format("the profile has no settings for {}", task.name));
    if (**task.settings != **tasks.front().settings) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("the profile has other settings for {} than for {}: measure one, with --op and --cache",
                              task.name, tasks.front().name));
    }
  }
  return tasks.empty() ? ProfileSettings() : **tasks.front().settings;
}

}  // namespace

void set_from_profile(const Profile& profile, const std::function<bool(std::string_view)>& is_given,
                      BenchOptions& options) {
  const ProfileSettings settings = common_settings(measured_tasks(profile, options));
  // "auto" is the first path that this machine has.
  if (settings.io_path && *settings.io_path != "auto" && !is_given("--io")) options.io = {*settings.io_path};
  if (settings.block_bytes && !is_given("--block")) options.block_bytes = {*settings.block_bytes};
  if (settings.queue_depth && !is_given("--depth")) options.queue_depths = {*settings.queue_depth};
  if (settings.threads && !is_given("--threads")) options.threads = {*settings.threads};
  if (settings.pages && !is_given("--memory")) {
    options.memory = *settings.pages == HostMemory::Pages::kHuge ? "thp" : "small-pages";
  }
}

void use_profile(const CLI::App& app, BenchOptions& options) {
  if (options.profile_file.empty()) return;
  const auto is_given = [&](std::string_view name) { return app.count(std::string(name)) != 0; };
  set_from_profile(load_profile(options.profile_file), is_given, options);
}

}  // namespace tzmark::bench
