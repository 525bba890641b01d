// What is measured: a way of moving the bytes of one workload, ours or another's.
//
// A subject is verified once, before anything is timed, and then run many times in turn with others. For one thread at
// a time; a subject starts threads of its own. Errors: tzmark::Error.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/latency.h"

namespace tzmark::bench {

enum class FileOperation : std::uint8_t { kRead, kWrite, kOpen };
enum class Cache : std::uint8_t {
  kWarm,    // the whole file is in the page cache before
  kCold,    // none of it is
  kDirect,  // none of it is, and the path goes by the cache
  kNone,    // of writes, which begin without a file
};
// Where a read ends.
enum class Target : std::uint8_t {
  kHugePages,   // newly mapped memory, in huge pages where the system has them
  kSmallPages,  // newly mapped memory, in pages of the smallest size
  kSink,        // memory of fixed size that is filled again and again
  kDevice,      // GPU memory: of raw paths of fixed size, of the codec newly allocated
};

std::string_view name_of(FileOperation operation);
std::string_view name_of(Cache cache);
std::string_view name_of(Target target);

// One run. Bytes of the device are those of everyone who used it meanwhile.
struct Sample {
  std::uint64_t elapsed_ns = 0;
  std::optional<std::uint64_t> sync_ns;  // of the fsync behind a write, which elapsed_ns does not hold
  std::optional<std::uint64_t> cpu_ns;   // user and system, all threads, without that fsync
  std::optional<double> resident_share;  // of the file in the page cache, before
  std::optional<std::uint64_t> device_read_bytes, device_written_bytes;  // until the end of the fsync
  std::optional<std::uint64_t> peak_memory_bytes;
  std::uint64_t transfers_in_place = 0;  // that io_uring refused
};

// What a subject is; of what does not apply there is none.
struct RunDescription {
  std::string subject;  // "codec", "raw", "fio", "peer", "ceiling"
  std::string detail;   // tells apart what is alike in all else; part of the id
  nlohmann::json peer;
  FileOperation operation = FileOperation::kRead;
  std::string io_requested, io_actual;
  std::optional<std::string> layout;
  std::string workload;
  std::optional<std::uint64_t> block_bytes;
  std::optional<unsigned> queue_depth, threads;
  std::string verification = "none";  // of a read what is checked, of a write what is stored: none, crc32, sha256, both
  bool encrypted = false;
  Target target = Target::kHugePages;
  Cache cache = Cache::kNone;
  std::uint64_t bytes = 0;
  std::uint64_t tensors = 0;
  bool verified_first = false;
  nlohmann::json gpudirect;  // how the bytes went to a GPU, seen in a pass of its own; null for other paths
  std::vector<std::string> notes;

  // Tells results of one document apart.
  std::string id() const;
};

class Subject {
 public:
  virtual ~Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  RunDescription& description() { return description_; }
  const RunDescription& description() const { return description_; }
  // Of single transfers, over all runs; nothing counted where nobody sees them.
  virtual LatencySummary latency() const { return latency_.summary(); }

  // Throws if the result is wrong. Not timed.
  virtual void verify() {}
  // Makes the state to begin with, and then what is timed.
  virtual Sample run() = 0;

 protected:
  Subject() = default;

  RunDescription description_;
  LatencyHistogram latency_;
};

// Clocks around one operation: made before it, stopped after it.
class RunTimer {
 public:
  // directory: whose device is watched.
  explicit RunTimer(const std::string& directory);
  // Fills in elapsed_ns and cpu_ns.
  void stop(Sample& sample) const;
  // Fills in the bytes of the device.
  void stop_device(Sample& sample) const;

 private:
  std::string directory_;
  std::optional<std::uint64_t> device_read_bytes_, device_written_bytes_;
  std::uint64_t cpu_ns_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace tzmark::bench
