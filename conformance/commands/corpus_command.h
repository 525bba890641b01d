// tzmark corpus: the cases for use with other test tools.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "commands/common_options.h"
#include "runner/selection.h"

namespace tzmark::conformance {

struct CorpusArguments {
  std::string command;  // list, check or export
  CorpusOptions corpus;
  Selection selection;  // of list
  std::string export_to;
};

void add_corpus_commands(CLI::App& app, CorpusArguments& arguments);

// Returns the exit status: 0, or 1 if check finds a file that differs from the manifest.
int run_corpus(const CorpusArguments& arguments, const std::filesystem::path& prefix,
               const std::atomic<bool>& cancelled);

// One line per case: id, layout, verdict, features, separated by tabs.
void print_cases(const std::vector<Case>& cases);

}  // namespace tzmark::conformance
