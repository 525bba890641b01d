// The statistics of libcufile and nvidia-fs, and the transfer route that two snapshots of them imply.
//
// Taking a snapshot and judging it are separate, so that the judgement is a pure function.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tzmark/gpudirect.h"

namespace tzmark {

// What the path itself has transferred, over all files of this process.
struct GpuDirectMoved {
  std::atomic<std::uint64_t> read_bytes = 0;   // by cuFileRead
  std::atomic<std::uint64_t> write_bytes = 0;  // by cuFileWrite
  std::atomic<std::uint64_t> edge_bytes = 0;   // written by the host
};
GpuDirectMoved& gpudirect_moved();

// Operations and bytes of one direction.
struct RouteCounts {
  std::uint64_t total = 0, p2p = 0, nvfs = 0, posix = 0;  // operations
  std::uint64_t bytes = 0;

  friend bool operator==(const RouteCounts&, const RouteCounts&) = default;
};

struct CuFileCounts {
  RouteCounts reads, writes;  // of all GPUs
};

// The counters of the whole machine, not of this process.
struct NvidiaFsCounts {
  std::uint64_t reads = 0, read_bytes = 0;
  std::uint64_t writes = 0, write_bytes = 0;
};

// Counts, or the reason why there are none.
template <typename Counts>
struct Counted {
  std::optional<Counts> counts;
  std::string why_not;
};

struct GpuDirectSnapshot {
  Counted<CuFileCounts> cufile;
  Counted<NvidiaFsCounts> nvidia_fs;
  std::uint64_t read_bytes = 0, write_bytes = 0, edge_bytes = 0;  // as in GpuDirectMoved
};

// REQUIRES: CuFile::instance().why_unavailable() is empty.
GpuDirectSnapshot gpudirect_snapshot();
GpuDirectAttestation attest(const GpuDirectSnapshot& before, const GpuDirectSnapshot& after);

// Parses the content of /proc/driver/nvidia-fs/stats.
Counted<NvidiaFsCounts> parse_nvidia_fs(std::string_view content);
// Parses what cuFileGetStatsL3 wrote into a zeroed buffer. version: from cuFileGetVersion.
Counted<CuFileCounts> parse_cufile(int version, std::span<const std::byte> filled);

}  // namespace tzmark
