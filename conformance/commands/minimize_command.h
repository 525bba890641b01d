// tzmark minimize: makes the smallest file with which an implementation fails as it does with a given one.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tzmark::conformance {

struct MinimizeArguments {
  std::string file;
  std::string adapter_command;
  std::vector<std::string> commands;
  std::string key_file;
  std::string passphrase_file;
  std::string out;
  std::string json_file;
  double timeout_seconds = 0;
  std::uint64_t memory_bytes = 0;
  double time_seconds = 600;
  bool one_shot = false;
};

void add_minimize_options(CLI::App& app, MinimizeArguments& arguments);

// Returns the exit status: 0, or 1 if the implementation does not fail on the file. prefix is the folder that this
// program is installed under.
int run_minimize(const MinimizeArguments& arguments, const std::filesystem::path& prefix,
                 const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
