// tzmark mutate: asks an adapter about mutated files, which are made of the valid files of a corpus.
#pragma once

#include <optional>

#include "commands/common_options.h"

namespace tzmark::conformance {

struct MutateArguments {
  RunOptions run;
  std::uint64_t count = 0;                // of mutated files
  std::optional<std::uint64_t> mutation;  // the only one to try
  bool stop_at_first = false;
  std::string findings;  // a new directory; empty: none
};

void add_mutate_options(CLI::App& app, MutateArguments& arguments);

// Returns the exit status: 0 or 1. Throws as run_suite does.
int run_mutate(const MutateArguments& arguments, const std::filesystem::path& prefix,
               const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
