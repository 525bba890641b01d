// tzmark bench --profile: the settings of a profile in the place of options that are not given. Thread-safe.
#pragma once

#include <functional>
#include <string_view>

#include "cli/bench_options.h"
#include "tzmark/profile.h"

namespace tzmark::bench {

// is_given: whether the command line has an option. Throws kUsage if the profile has no settings for what is measured,
// or different ones for parts of it: one run has one list of settings.
void set_from_profile(const Profile& profile, const std::function<bool(std::string_view option)>& is_given,
                      BenchOptions& options);
// The same for the file that the command line names, if it names one.
void use_profile(const CLI::App& app, BenchOptions& options);

}  // namespace tzmark::bench
