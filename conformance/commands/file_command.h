// tzmark conform --file: the model's verdict on one file, and an adapter's answers about it.
#pragma once

#include "commands/common_options.h"

namespace tzmark::conformance {

struct FileArguments {
  std::string file;  // empty: a run on a corpus
  std::string key_file;
  std::string passphrase_file;
};

// --file, --key-file and --passphrase-file. REQUIRES: all other options of the app are there, for those that only make
// sense with a corpus are excluded.
void add_file_options(CLI::App& app, FileArguments& arguments);

// Returns the exit status: 0 if the adapter answers as the model requires, 1 if it does not or was not asked.
int run_on_file(const FileArguments& arguments, const RunOptions& run, const std::filesystem::path& prefix,
                const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
