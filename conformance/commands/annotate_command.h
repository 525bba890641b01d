// tzmark inspect --bytes: every byte of a file with the field that it belongs to, also of files that readers refuse.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <string>

namespace tzmark::conformance {

struct AnnotateArguments {
  std::string file;  // "-": standard input
  bool unfolded = false;
};

void add_annotate_options(CLI::App& app, AnnotateArguments& arguments);

// Returns the exit status: 0, or 1 if the structure of the file breaks a rule. Uses the file alone.
int run_annotate(const AnnotateArguments& arguments, const std::filesystem::path& prefix,
                 const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
