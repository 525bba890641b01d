// The options that several commands share, each declared and used in one place.
//
// Thread-safety: for one thread, as CLI11 is.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runner/adapter.h"
#include "runner/policy.h"
#include "runner/suite.h"

namespace tzmark::conformance {

// --adapter, --profile, --one-shot, --allow-writes and --allow-network.
struct AdapterOptions {
  std::string command;  // empty: the reference, below prefix
  std::string profile_file;
  bool one_shot = false;
  std::vector<std::string> writable;
  bool network = false;

  // Throws as Adapter does.
  Adapter start(const std::filesystem::path& prefix, const std::atomic<bool>& cancelled) const;

  // The words of a command line that permits the same.
  std::vector<std::string> permitting_words() const;
};

// Without --profile.
void add_adapter_options(CLI::App& app, AdapterOptions& options);

// Accepts a number of seconds from a nanosecond to 30 years. CLI::PositiveNumber accepts NaN.
CLI::Validator seconds_validator();

// --timeout and --memory; replaced names what counts without them.
void add_limit_options(CLI::App& app, LimitOverrides& limits, const std::string& replaced);

// --only, --layout, --rule and --quick.
void add_selection_options(CLI::App& app, Selection& selection);

// Which cases: those in a directory, or the installed ones of a format.
struct CorpusOptions {
  std::string directory;  // empty: the installed ones
  std::string format = "tensorizer";
};

void add_corpus_options(CLI::App& app, CorpusOptions& corpus);

// --json
void add_json_option(CLI::App& app, std::string& json_file);

// --policy and --strict.
struct PolicyOptions {
  std::vector<std::string> settings;
  bool strict = false;

  // Throws as Policies does.
  Policies policies(const Manifest& manifest) const { return {manifest, settings, strict}; }
};

void add_policy_options(CLI::App& app, PolicyOptions& options);

// What the commands have in common that ask about the cases of a corpus, or about files made of them.
struct RunOptions {
  AdapterOptions adapter;
  CorpusOptions corpus;
  Selection selection;
  PolicyOptions policy;  // of commands with add_policy_options
  LimitOverrides limits;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  std::uint64_t seed = InputModeOptions().seed;
  std::optional<std::string> input_modes;  // without: files, and what a command adds to them
  std::string json_file;                   // empty: none

  // What the command reads and must not overwrite.
  std::vector<std::string> input_files(const Manifest& manifest) const {
    return {adapter.profile_file, (manifest.directory / "manifest.json").string()};
  }

  // Throws UsageError for unknown modes.
  InputModeOptions input(const std::filesystem::path& prefix) const;

  // The words that begin a command line which asks the same adapter, and then about the same cases.
  std::vector<std::string> asking_words(const std::string& command) const;
  std::vector<std::string> repeating_words(const std::string& command) const;
};

void add_run_options(CLI::App& app, RunOptions& options, const char* seed_text);

// Throws UnavailableError if this machine does not support one of the input modes.
void check_input_modes(const InputModeOptions& input, const std::atomic<bool>& cancelled);

// Throws as load_manifest does.
Manifest load_corpus(const CorpusOptions& corpus, const std::filesystem::path& prefix);

// Prints a line for each feature that the profile lacks and no case has.
void warn_of_stale_exclusions(const Manifest& manifest, const Profile& profile);

}  // namespace tzmark::conformance
