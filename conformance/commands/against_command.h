// tzmark against: asks two implementations about the same files, and reports where they differ.
#pragma once

#include "commands/common_options.h"

namespace tzmark::conformance {

struct AgainstArguments {
  RunOptions run;
  std::string other;        // command of the second implementation
  std::uint64_t count = 0;  // of mutated files to compare on; 0: the cases themselves
  bool compare_rules = false;
  std::string findings;  // a new directory; empty: none
  double minimize_seconds = 60;
};

void add_against_options(CLI::App& app, AgainstArguments& arguments);

// Returns the exit status: 0 if they differ nowhere, else 1. Throws as run_suite does.
int run_against(const AgainstArguments& arguments, const std::filesystem::path& prefix,
                const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
