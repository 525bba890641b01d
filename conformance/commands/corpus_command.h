// tzmark corpus: the cases as a product of their own, for people who test with other tools.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/manifest.h"

namespace tzmark::conformance {

struct CorpusArguments {
  std::string command;  // list, check or export
  std::string corpus;
  std::string export_to;
};

void add_corpus_commands(CLI::App& app, CorpusArguments& arguments);

// Returns the exit status: 0, or 1 if check finds a file that is not the one that the manifest means.
int run_corpus(const CorpusArguments& arguments, const std::filesystem::path& prefix);

// One line a case: id, layout, verdict, features, separated by tabs.
void print_cases(const std::vector<Case>& cases);

}  // namespace tzmark::conformance
