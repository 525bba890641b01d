// A setting in the words of other programs: loaders and storage benchmarks.
//
// Each export lists what does not carry over: what the other program does otherwise at the same numbers. Names of
// options are those of the versions in docs/tuning-exports.md. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tune/setting.h"

namespace tzmark::bench {

struct Export {
  std::string name;  // "tzmark", "fio", "elbencho", "ior", "deepspeed", "runai", "instanttensor", "tensorizer"
  std::string task;  // "load-warm", "load-cold", "load-server", "save"; "all" for tzmark, whose profile has all of them
  std::optional<std::string> file_name;  // if the text is that of a file; none for command lines and environments
  std::string text;                      // ends with a newline
  std::vector<std::string> lost;         // sentences
};

// What is exported.
struct ExportedTask {
  std::string task;  // "load-warm", "load-cold", "load-server", "save"
  Setting setting;   // queue_depth and threads as resolved: not 0
  // The directory that was measured, or the URL as it is shown; fio, elbencho and IOR get a file in it. The commands of
  // these are for a shell.
  std::string directory;
  std::uint64_t bytes = 0;         // of the workload
  std::uint64_t memory_bytes = 0;  // that the loader may hold besides tensors; 0 = bytes in flight
  bool is_synced = true;           // save: the rate includes fsync
  bool to_device = false;          // the load ends in GPU memory
};

// All exports of one task except tzmark's profile. Loaders (deepspeed to tensorizer) get none for a save where they do
// not save. Throws kUsage for a directory whose name no command line can hold (a newline, or what fio would expand).
std::vector<Export> exports_of(const ExportedTask& task);

// The same for a load from a server: only what reads URLs. is_s3: whether the URL is an s3 one.
std::vector<Export> exports_of_served(const ExportedTask& task, bool is_s3);

// The profile for --profile, over all tasks.
Export tzmark_profile(std::span<const ExportedTask> tasks);

// Quotes a word for a POSIX shell, only if it must be. Throws kUsage for control characters.
std::string shell_quoted(std::string_view word);

}  // namespace tzmark::bench
