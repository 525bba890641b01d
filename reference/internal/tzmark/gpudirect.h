// The transfer route of the I/O path gpudirect: evidence that bytes went directly between storage and GPU memory.
//
// The path uses libcufile, which may transfer by PCI peer-to-peer (P2P), by the kernel module nvidia-fs, or by ordinary
// reads and copies ("POSIX compatibility mode"). Neither its return values nor its properties tell which; its
// statistics do.
// Errors: TZE-AVL-001 without a GPU or libcufile.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tzmark {

struct GpuDirectAttestation {
  std::string route = "unknown";  // p2p, nvidia-fs, posix, mixed, unknown
  // "cuFileGetStatsL3", "/proc/driver/nvidia-fs/stats", or "none"
  std::string source = "none";
  // Why the route is unknown, or what the counters leave open; empty if they leave nothing open.
  std::string note;
  // As the source counts them. libcufile counts the bytes that were requested, so a read at the end of the file counts
  // in full; nvidia-fs counts whole MiB.
  std::uint64_t p2p_bytes = 0;
  std::uint64_t nvfs_bytes = 0;
  std::uint64_t posix_bytes = 0;
  // Unaligned ends of writes. The path always copies them to the host and writes them from there; no other counter
  // includes them.
  std::uint64_t edge_bytes = 0;
};

// Observes the transfers of this process over the path gpudirect between begin and end. The statistics belong to the
// process, so at most one observer may be active. For one thread at a time. Statistics slow libcufile down: observe in
// a separate pass, not while timing.
class GpuDirectObserver {
 public:
  GpuDirectObserver();
  ~GpuDirectObserver();
  GpuDirectObserver(const GpuDirectObserver&) = delete;
  GpuDirectObserver& operator=(const GpuDirectObserver&) = delete;

  void begin();
  // REQUIRES: begin was called, and no transfer is in flight.
  GpuDirectAttestation end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tzmark
