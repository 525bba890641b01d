// The options that several commands share, each declared and used in one place.
//
// Thread-safety: for one thread, as CLI11 is.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "runner/adapter.h"
#include "runner/suite.h"

namespace tzmark::conformance {

// --adapter, --profile and --one-shot.
struct AdapterOptions {
  std::string command;  // empty: the reference, below prefix
  std::string profile_file;
  bool one_shot = false;

  // Throws as Adapter does.
  Adapter start(const std::filesystem::path& prefix, const std::atomic<bool>& cancelled) const;
};

// Without --profile.
void add_adapter_options(CLI::App& app, AdapterOptions& options);

// Accepts a number of seconds from a nanosecond to 30 years. CLI::PositiveNumber accepts NaN.
CLI::Validator seconds_validator();

// --timeout and --memory; replaced names what counts without them.
void add_limit_options(CLI::App& app, LimitOverrides& limits, const std::string& replaced);

void add_corpus_option(CLI::App& app, std::string& corpus);

// --json
void add_json_option(CLI::App& app, std::string& json_file);

// What the commands have in common that ask about the cases of a corpus, or about files made of them.
struct RunOptions {
  AdapterOptions adapter;
  std::string corpus;  // empty: the one below prefix
  Selection selection;
  LimitOverrides limits;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  std::uint64_t seed = InputModeOptions().seed;
  std::string json_file;  // empty: none

  // The words that begin a command line which asks the same adapter, and then about the same cases.
  std::vector<std::string> asking_words() const;
  std::vector<std::string> repeating_words() const;
};

void add_run_options(CLI::App& app, RunOptions& options, const char* seed_text);

// Throws as load_manifest does.
Manifest load_corpus(const std::string& corpus, const std::filesystem::path& prefix);

// Prints a line for each feature that the profile lacks and no case has.
void warn_of_stale_exclusions(const Manifest& manifest, const Profile& profile);

}  // namespace tzmark::conformance
