// fio as the reference for raw transfers: one sequential pass over a file with the same parameters.
//
// Equal to a raw run:
// - Data: every byte of the file once, in whole blocks (--bs, --size). Each job has a contiguous part of the file
//   (--offset_increment), while raw threads take blocks in turn; the disk sees the same number of streams.
// - Queue depth over all jobs. A psync job has one transfer in flight, so there is one job per transfer; io_uring has
//   `threads` jobs that share the depth evenly (--iodepth), reap completions one by one, and register their buffers and
//   the file (--fixedbufs, --registerfiles), as the uring paths of tzmark do.
// - Page cache: --direct as requested; fio itself never drops pages (--invalidate=0), because the caller sets the
// state.
// - Allocation: --fallocate=native if the raw path reserves, else none. The time includes no fsync (--end_fsync=0).
// - Jobs are threads of one process (--thread).
// Not equal: fio reads into the same small buffers repeatedly, a raw read into new memory. With --direct this costs the
// raw run only page faults. A buffered comparison would be unfair to the raw run, so tzmark makes none.
//
// For one thread at a time per file. Errors: TZE-AVL-001 without fio, TZE-ENV-002 or 003 with fio's message if it
// fails, kUsage for jobs with less than one block each.
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
  std::string file_name;  // read: at least `bytes` long; write: replaced
  FioOperation operation = FioOperation::kRead;
  FioEngine engine = FioEngine::kPsync;
  std::uint64_t bytes = 0;
  std::uint64_t block_bytes = 0;
  unsigned threads = 1;
  unsigned queue_depth = 0;  // over all threads; 0: one per thread
  bool direct = false;
  bool reserve = false;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

struct FioResult {
  // Of the slowest job. fio rounds up to whole milliseconds (update_runtime in its backend.c), so a pass of 100 ms may
  // seem one percent slower than it was: use long passes.
  std::uint64_t elapsed_ns = 0;
  std::uint64_t bytes = 0;   // transferred; the job's bytes less incomplete blocks
  double rate = 0;           // bytes per second
  std::uint64_t cpu_ns = 0;  // user and system time of all jobs, without the kernel threads of io_uring
  LatencySummary latency;    // of each block, from submission to completion
  std::string version;       // "fio-3.33"
};

// The version of the fio in PATH; nothing without one.
std::optional<std::string> fio_version();

// Makes the command of a job. Throws kUsage if there is less than one block per job.
std::vector<std::string> fio_command(const FioJob& job);

FioResult run_fio(const FioJob& job);

// Parses fio's JSON, ignoring text around it. Throws as run_fio does.
FioResult parse_fio(std::string_view output, FioOperation operation);

}  // namespace tzmark::bench
