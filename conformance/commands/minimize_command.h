// tzmark minimize: shrinks a file while an implementation fails on it in the same way.
#pragma once

#include "commands/common_options.h"

namespace tzmark::conformance {

struct MinimizeArguments {
  std::string file;
  AdapterOptions adapter;
  std::vector<std::string> commands;
  std::string key_file;
  std::string passphrase_file;
  std::string out;
  std::string json_file;
  LimitOverrides limits;
  double time_seconds = 600;
};

void add_minimize_options(CLI::App& app, MinimizeArguments& arguments);

// Returns the exit status: 0, or 1 if the implementation does not fail on the file. prefix is the directory that this
// program is installed under.
int run_minimize(const MinimizeArguments& arguments, const std::filesystem::path& prefix,
                 const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
