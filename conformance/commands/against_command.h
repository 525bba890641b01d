// tzmark conform --against: two implementations on the same files, and where they differ.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runner/adapter.h"
#include "runner/manifest.h"
#include "runner/suite.h"

namespace tzmark::conformance {

struct AgainstArguments {
  std::string command;  // of the second implementation; empty: none asked for
  bool compare_rules = false;
  double minimize_seconds = 60;

  bool wanted() const { return !command.empty(); }
};

void add_against_options(CLI::App& app, AgainstArguments& arguments);

// What of the suite's own options counts here.
struct AgainstRun {
  const Manifest* manifest = nullptr;
  const std::vector<Case>* cases = nullptr;
  const Adapter* first = nullptr;
  SuiteOptions options;
  bool one_shot = false;
  std::uint64_t mutations = 0;  // not 0: so many mutated files of the cases, in place of the cases
  std::uint64_t seed = 0;       // of these
  std::string findings;         // a folder; empty: none
  std::string json_file;        // empty: none
};

// Returns the exit status: 0 if they differ nowhere, else 1. Throws as run_suite does.
int run_against(const AgainstArguments& arguments, const AgainstRun& run, const std::atomic<bool>& cancelled,
                const std::function<void(std::size_t done)>& progress);

}  // namespace tzmark::conformance
