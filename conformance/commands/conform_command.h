// tzmark conform: runs the suite on an adapter and reports what came of it.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

#include "commands/against_command.h"
#include "commands/mutate_command.h"
#include "runner/suite.h"

namespace tzmark::conformance {

struct ConformArguments {
  std::string adapter_command;
  std::string corpus;
  std::string profile_file;
  Selection selection;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  double timeout_seconds = 0;
  std::uint64_t memory_bytes = 0;
  std::string modes = "file";
  std::uint64_t seed = InputOptions().seed;
  bool one_shot = false;
  std::string kept;
  std::string known_file;
  bool fix_known = false;
  std::string json_file;
  std::string html_file;
  std::string junit_file;
  std::string repro_case;
  bool list = false;
  std::string findings;
  AgainstArguments against;
  MutateArguments mutate;
};

void add_conform_options(CLI::App& app, ConformArguments& arguments);

// Returns the exit status: 0 or 1. prefix is the folder that this program is installed under.
int run_conform(const ConformArguments& arguments, const std::filesystem::path& prefix,
                const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
