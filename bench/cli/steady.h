// tzmark bench soak: each subject repeats its operation for a time, which shows whether its throughput lasts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/rounds.h"

namespace tzmark::bench {

struct LongRunOptions {
  std::chrono::seconds duration{60};
  unsigned ceiling_samples = 7;  // ceilings move nothing that could slow down
  std::string directory;         // on the device whose counters the live line shows
  // Receives a line for a person to read, once per second. May be empty.
  std::function<void(const std::string& line)> progress;
  // Asked before each operation; ends the run early. May be empty.
  std::function<bool()> stop = {};
};

// Verifies each subject, then runs one after another, each until the operation ends in which its time does. Files are
// rewritten, so that the disk does not fill. Keeps at most 500 samples of each, evenly spread. Errors: as run_rounds.
void run_for(std::vector<Measured>& subjects, const LongRunOptions& options);

// Notes in the description of each subject why its figure may not be the one of the storage: the page cache was not
// asked for, or the data is less than twice the L3 cache.
void note_caches(std::vector<Measured>& subjects, bool warm_requested, std::optional<std::uint64_t> l3_bytes);

// What a long run gave, as in the schema; null for a subject that had none.
nlohmann::json steady_json(const Measured& measured);

// The rates of the whole and of the steady part, the test of the latter, and what to do if it is not steady.
std::string steady_table(const std::vector<Measured>& subjects);

}  // namespace tzmark::bench
