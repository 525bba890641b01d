// A subject of measurement: one way of moving the bytes of a workload, by tzmark or another program.
//
// A subject is verified once before anything is timed, and then runs many times in turn with others. For one thread at
// a time; a subject starts its own threads. Errors: tzmark::Error.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/disturbance.h"
#include "harness/latency.h"
#include "harness/pages.h"
#include "tzmark/io.h"

namespace tzmark::bench {

enum class FileOperation : std::uint8_t { kRead, kWrite, kOpen };
enum class Cache : std::uint8_t {
  kWarm,    // the whole file is in the page cache
  kCold,    // none of it is
  kDirect,  // none of it is, and the path bypasses the cache
  kServer,  // the file is on a server, whose caches are unknown
  kNone,    // for writes, which create their file
};
// The destination of a read.
enum class Target : std::uint8_t {
  kHugePages,   // newly mapped memory, in huge pages if available
  kSmallPages,  // newly mapped memory, in small pages
  kSink,        // memory of fixed size that is reused
  kDevice,      // GPU memory: newly allocated by the codec, reused by raw transfers
};

std::string_view name_of(FileOperation operation);
std::string_view name_of(Cache cache);
std::string_view name_of(Target target);

// One run. The bytes of the device include those of other processes.
struct Sample {
  std::uint64_t elapsed_ns = 0;          // a write includes the close, as programs that write files do
  std::optional<std::uint64_t> sync_ns;  // of opening the written file again, its fsync and its close
  std::optional<std::uint64_t> cpu_ns;   // user and system time of all threads, fsync included
  std::uint64_t user_elsewhere_ns = 0;   // user time of processes that work for the subject and still run
  std::optional<double> resident_share;  // of the file in the page cache before the run
  std::optional<std::uint64_t> device_read_bytes, device_written_bytes;  // fsync included
  std::optional<std::uint64_t> peak_memory_bytes;
  std::uint64_t transfers_in_place = 0;   // refused by io_uring
  std::optional<RequestCounts> requests;  // to a server
  nlohmann::json ranks;                   // what each rank did; null if it was one process
  // Set by what runs the subject: when it began after the start of the run, as which sample of all, and what disturbed
  // it, preparations included.
  std::uint64_t began_ns = 0;
  std::uint64_t position = 0;
  Disturbance disturbance;
};

// The parameters of a subject; those that do not apply are absent.
struct RunDescription {
  std::string subject;  // "codec", "raw", "fio", "peer", "ceiling"
  std::string detail;   // distinguishes subjects that are otherwise equal; part of the id
  std::string group;    // of the checks, each of which runs its own; part of the id
  nlohmann::json peer;
  FileOperation operation = FileOperation::kRead;
  std::string io_requested, io_actual;
  std::optional<std::string> layout;
  std::string workload, workload_label;  // the id has the label
  std::optional<std::uint64_t> block_bytes;
  bool is_default_block = false;
  std::optional<unsigned> queue_depth, threads;
  std::string verification = "none";  // checked by a read or stored by a write: none, crc32, sha256, both
  bool encrypted = false;
  Target target = Target::kHugePages;
  std::optional<Pages> pages;  // requested for the memory of the transfers; nothing where it is not ours to choose
  std::optional<double> huge_share;  // the share of that memory in huge pages that was furthest from the request
  bool first_touch = false;          // latencies include the first touch of new memory
  Cache cache = Cache::kNone;
  bool device_beside = false;  // a write through the page cache during which the device works already
  std::uint64_t bytes = 0;
  std::uint64_t tensors = 0;
  std::uint64_t largest_tensor_bytes = 0;
  bool verified_first = false;
  nlohmann::json gpudirect;  // attested transfer route to a GPU; null for other paths
  nlohmann::json cluster;    // figures over the ranks; null if it is one process
  std::vector<std::string> notes;

  // Identifies a result within its document.
  std::string id() const;
};

class Subject {
 public:
  virtual ~Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  RunDescription& description() { return description_; }
  const RunDescription& description() const { return description_; }
  // Of single transfers over all runs: of their submission, where that is a step of its own, and from there to their
  // completion. Empty if the subject cannot observe them.
  LatencySummary latency() const { return latency_.summary(); }
  LatencySummary submission() const { return submission_.summary(); }

  // Makes what runs need, such as files, without a check. Not timed.
  virtual void prepare() {}
  // Prepares, and throws if the result is wrong. Not timed.
  virtual void verify() {}
  // Prepares the initial state, then runs and times the operation.
  virtual Sample run() = 0;
  // Removes the file that the last run wrote, which the next one would replace. Not timed.
  virtual void remove_output() {}

 protected:
  Subject() = default;

  // Records what kind of pages the memory of a run had.
  void see_pages(std::optional<double> huge_share);

  RunDescription description_;
  LatencyHistogram latency_, submission_;
};

// User and system time of this process, all threads included.
std::uint64_t cpu_now_ns();
// The same of child processes that have ended.
std::uint64_t cpu_of_children_ns();

// Times one operation, from construction to stop().
class RunTimer {
 public:
  // directory: on the device whose counters are read; empty for none.
  explicit RunTimer(const std::string& directory);
  // Fills in elapsed_ns and cpu_ns.
  void stop(Sample& sample) const;
  // Fills in the bytes that the device moved.
  void stop_device(Sample& sample) const;

 private:
  std::string directory_;
  std::optional<std::uint64_t> device_read_bytes_, device_written_bytes_;
  std::uint64_t cpu_ns_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace tzmark::bench
