// What one rank does in a run, and what it tells rank 0 of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tzmark/error.h"

namespace tzmark::bench {

// Durations are from the barrier that all ranks leave, by the clock of the host. Clocks of hosts are never compared.
struct RankRun {
  std::string host = {};
  std::string clock = {};  // of the host: equal for ranks with the same one
  unsigned role = 0;
  std::uint64_t began_ns = 0;  // when it left the barrier, by that clock
  // Of reads: until the file was open, and all ranks had it open where they exchange.
  std::optional<std::uint64_t> open_ns = std::nullopt;
  // Of checkpoints: until training could go on.
  std::optional<std::uint64_t> stall_ns = std::nullopt;
  std::uint64_t elapsed_ns = 0;  // until all bytes of the rank were in its memory, or all were durable and had a name
  std::uint64_t cpu_ns = 0;
  std::uint64_t bytes = 0;  // that it then had, or had written
  // Told by the first rank of each host: the share of the files in its page cache before the run, and what its disks
  // moved from the barrier before until the barrier after it.
  std::optional<double> resident_share = std::nullopt;
  std::optional<std::uint64_t> device_read_bytes = std::nullopt, device_written_bytes = std::nullopt;
  // Set if it failed.
  std::optional<ErrorCode> error_code = std::nullopt;
  std::string error_text = {};
};

// Lets the ranks of a clock begin together, with the first of them: where there are more ranks than cores, one that the
// kernel lets run late would seem to be fast.
void begin_together(std::vector<RankRun>& runs);

std::string to_text(const RankRun& run);
// Throws TZE-ENV-006 for a text that to_text has not made.
RankRun rank_run_from(const std::string& text);

// Throws the error of the lowest rank that failed, with the rank and its host: one of wrong bytes rather than others,
// and only if there is no other that another rank has failed.
void throw_problem_of(const std::vector<RankRun>& runs);

}  // namespace tzmark::bench
