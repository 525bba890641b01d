// The command lines of tzmark bench, and the options that several of its subcommands have.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/gpu_ceilings.h"
#include "tzmark/hashes.h"

namespace tzmark::bench {

// Which combinations are measured.
struct BenchOptions {
  bool encrypt = false, fio = false, peers = false, no_ceilings = false, no_raw = false;
  std::string directory, profile_file;
  std::string workload = "gpt2", layout = "v4", memory = "auto", cache = "auto", compute = "auto";
  std::uint64_t scale_bytes = 0, gpu_set_bytes = kGpuWorkingSetBytes;
  std::vector<std::string> io, operations = {"read", "write"};
  std::vector<std::string> verifications = {};   // empty: none; of two builds none and both
  std::vector<std::uint64_t> block_bytes = {0};  // 0: what suits the path
  std::vector<unsigned> queue_depths = {0}, threads = {0};
};

// What is done with the result.
struct ResultOptions {
  std::string json_file, format = "text";
  bool progress = false;
};

// Each adds one option. bytes, paths, what: what the help says of this subcommand.
CLI::Option* add_directory(CLI::App& app, std::string& directory);
void add_workload(CLI::App& app, std::string& workload, const std::string& what);
void add_scale(CLI::App& app, std::uint64_t& scale_bytes, const std::string& bytes);
void add_io(CLI::App& app, std::vector<std::string>& io, const std::string& paths);
void add_gpu_set(CLI::App& app, std::uint64_t& bytes);
void add_seed(CLI::App& app, std::uint64_t& seed);
void add_budget(CLI::App& app, std::uint64_t& budget_s);
void add_format(CLI::App& app, std::string& format);
// Adds --json and --progress.
void add_result(CLI::App& app, ResultOptions& options);
// Adds --profile.
void add_profile(CLI::App& app, BenchOptions& options);
// What the help says of the defaults.
struct SubjectDefaults {
  std::string scale, io, verify;
};
// Adds the options that say which combinations are measured, except for the directory and the profile.
void add_subjects(CLI::App& app, BenchOptions& options, const SubjectDefaults& defaults);
// Adds those for subjects other than the codec and its raw transfers.
void add_other_subjects(CLI::App& app, BenchOptions& options);

// Returns what a name of --verify means.
Verification verification_of(std::string_view name);

// Returns a transformation of "90s", "10m" or "2h" to seconds.
CLI::AsNumberWithUnit to_seconds();

}  // namespace tzmark::bench
