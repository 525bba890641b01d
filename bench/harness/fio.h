// fio as the reference for raw transfers: one sequential pass over a file with the same parameters.
//
// Equal to a raw run:
// - Data: every byte of the file once, in whole blocks. Of N jobs, each transfers every Nth block (--offset_increment,
//   and the skip of --rw), as raw threads take blocks in turn: the disk sees one front that moves through the file.
// - Queue depth over all jobs. A psync job has one transfer in flight, so there is one job per transfer; io_uring has
//   `threads` jobs that share the depth evenly (--iodepth), reap completions one by one, and register their buffers and
//   the file (--fixedbufs, --registerfiles), as the uring paths of tzmark do.
// - Page cache: --direct as requested; fio itself never drops pages (--invalidate=0), because the caller sets the
// state.
// - Allocation: --fallocate=native if the raw path reserves, else none. The time includes no fsync (--end_fsync=0).
// - Memory: one buffer per transfer in flight, reused, aligned, in huge pages if requested (malloc of glibc asks for
//   them). A small buffer shares its page with others, so blocks below 2 MiB get small pages in any case.
// - Content: each 512 bytes written differ in two words (--scramble_buffers), with another seed in each run.
// - Jobs are threads of one process (--thread), whose clocks start when they are ready.
//
// fio reports the time of each job, but its jobs start up to 10 ms apart, so that the slowest one takes up to a third
// less than all of them together. The time taken here is therefore from the first start of a transfer to the last end,
// by a log that fio keeps in memory and writes next to the file afterwards (FILE.fio_lat.log, removed again). Its times
// are whole milliseconds, of which one is taken off: fio never seems slower than it was, or than its slowest job. That
// one is reported in whole milliseconds, rounded up (update_runtime in its backend.c); within that millisecond, it is
// the sum of the job's latencies over its depth, a lower bound.
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
#include "harness/pages.h"

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
  Pages pages = Pages::kSmall;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

struct FioResult {
  std::uint64_t elapsed_ns = 0;  // of all jobs; by parse_fio, of the slowest one
  std::uint64_t bytes = 0;       // transferred; the job's bytes less incomplete blocks
  double rate = 0;               // bytes per second
  std::uint64_t cpu_ns = 0;      // user and system time of all jobs, without the kernel threads of io_uring
  LatencyHistogram latency;      // of each block, from the end of its submission to its completion
  LatencyHistogram submission;   // of each block; empty for synchronous engines, where it is part of the latency
  std::string version;           // "fio-3.33"
};

// The version of the fio in PATH; nothing without one.
std::optional<std::string> fio_version();

// Makes the command of a job. Throws kUsage if there is less than one block per job.
std::vector<std::string> fio_command(const FioJob& job);

FioResult run_fio(const FioJob& job);

// The bytes that a job transfers: whole blocks, as many for each job.
std::uint64_t fio_bytes(const FioJob& job);

// Runs a job and watches its memory: the part of its buffers that is in huge pages, or nothing if it ended too early.
std::optional<double> fio_huge_share(const FioJob& job);

// From the first start to the last end in a log of latencies: lines of the milliseconds at the end, a comma, the
// nanoseconds taken, and more. Nothing for an empty or damaged log.
std::optional<std::uint64_t> fio_span_ns(std::string_view log);

// Parses fio's JSON, ignoring text around it. Throws as run_fio does.
FioResult parse_fio(std::string_view output, const FioJob& job);

}  // namespace tzmark::bench
