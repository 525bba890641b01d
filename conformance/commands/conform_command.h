// tzmark conform: runs the cases of a corpus on an adapter and reports the results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands/common_options.h"
#include "commands/file_command.h"

namespace tzmark::conformance {

struct ConformArguments {
  RunOptions run;
  FileArguments file;
  std::string kept;
  std::string known_file;
  bool fix_known = false;
  std::string html_file;
  std::string junit_file;
  std::string tap_file;
  std::string badge_file;
  std::string summary_file;
  bool annotations = false;
  std::vector<std::string> diff_files;  // two, or none
  std::string repro_case;
  std::optional<std::size_t> skipped_max;  // no limit if there is none
  bool list = false;
};

void add_conform_options(CLI::App& app, ConformArguments& arguments);

// Returns the exit status: 0 or 1. prefix is the directory that this program is installed under.
int run_conform(const ConformArguments& arguments, const std::filesystem::path& prefix,
                const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
