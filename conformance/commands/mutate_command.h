// tzmark conform --mutate: gives mutated files of the corpus's valid files to an adapter, in place of its cases.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "mutation/mutation_run.h"
#include "runner/report.h"

namespace tzmark::conformance {

struct MutateArguments {
  std::uint64_t mutations = 0;           // 0: none asked for
  std::optional<std::uint64_t> mutated;  // this one alone
  bool stop_at_first = false;

  bool wanted() const { return mutations > 0 || mutated.has_value(); }
};

void add_mutate_options(CLI::App& app, MutateArguments& arguments);

struct MutateRun {
  SuiteRun* suite = nullptr;  // without results; elapsed is filled in
  const std::vector<Case>* cases = nullptr;
  std::uint64_t seed = 0;
  std::string ask;       // the words that begin a command line which asks this adapter
  std::string repeat;    // the same, and which cases mutated files are made of
  std::string findings;  // a new folder for them; empty: none is wanted
  std::string json_file;
};

// Returns the exit status: 0 or 1. Throws as run_suite does.
int run_mutate(const MutateArguments& arguments, const MutateRun& run, const std::atomic<bool>& cancelled,
               const std::function<void(std::size_t done)>& progress);

}  // namespace tzmark::conformance
