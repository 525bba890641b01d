// fio as the yardstick for our raw runs: one sequential pass over a file, with the same parameters.
//
// Equal to a raw run are, and by these options:
// - what moves: every byte of the file once, in whole blocks (--bs, --size). Each job has its own contiguous part of
//   the file (--offset_increment), where raw threads take turns; a disk sees as many streams either way.
// - what is in flight, over all jobs (queue_depth). A psync job has one transfer in flight, so there are as many jobs
//   as transfers; io_uring has `threads` jobs that share the depth out evenly (--iodepth), take up what is complete one
//   by one, and register their buffers and the file (--fixedbufs, --registerfiles), as our uring paths do.
// - the page cache: --direct as asked, and never touched by fio itself (--invalidate=0), since the caller makes and
//   proves its state.
// - room: --fallocate=native where the raw path reserves, else none. No fsync belongs to the time (--end_fsync=0).
// - jobs are threads of one process (--thread).
// Not equal: fio reads into the same small buffers again and again, where a raw read fills new memory. With --direct
// that costs the raw run page faults alone; a buffered comparison is unfair to the raw run, and is not made by tzmark.
//
// For one thread at a time a file. Errors: TZE-AVL-001 if there is no fio, TZE-ENV-002 or 003 with fio's own words if
// it fails, kUsage for jobs that cannot be shared out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/latency.h"

namespace tzmark::bench {

enum class FioOperation : std::uint8_t { kRead, kWrite };
enum class FioEngine : std::uint8_t { kPsync, kIoUring };

struct FioJob {
  std::string file_name;  // read: has at least so many bytes; write: is replaced
  FioOperation operation = FioOperation::kRead;
  FioEngine engine = FioEngine::kPsync;
  std::uint64_t bytes = 0;
  std::uint64_t block_bytes = 0;
  unsigned threads = 1;
  unsigned queue_depth = 0;  // over all threads; 0: one for each
  bool direct = false;
  bool reserve = false;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

struct FioResult {
  // Of the slowest job, each from its own start. fio rounds up to whole milliseconds (update_runtime in its backend.c),
  // so that a pass of 100 ms may seem one percent slower than it was: let passes be long.
  std::uint64_t elapsed_ns = 0;
  std::uint64_t bytes = 0;   // what moved: the job's bytes, less what does not fill a block of each job
  double rate = 0;           // bytes per second
  std::uint64_t cpu_ns = 0;  // user and system, all jobs; without what kernel threads do for io_uring
  LatencySummary latency;    // from submission to completion, each block
  std::string version;       // "fio-3.33"
};

// Of the fio in PATH; nothing without one.
std::optional<std::string> fio_version();

// The command for a job. Throws kUsage if there is less than one block for each job.
std::vector<std::string> fio_command(const FioJob& job);

FioResult run_fio(const FioJob& job);

// What fio's JSON says of a job. Text before and behind it is left out. Throws as run_fio does.
FioResult parse_fio(std::string_view output, FioOperation operation);

}  // namespace tzmark::bench
