// Facts about the storage of a directory that decide how to tune it, and whether it can be tuned at all.
//
// Unknown facts are absent, and null in JSON. Thread-safe.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/mount.h"

namespace tzmark::bench {

// One layer of md or of device mapper below a file system.
struct RaidLayer {
  std::string name;   // "md0", "dm-3"
  std::string level;  // md: "raid0"; device mapper: the kind of its volume by its uuid ("lvm", "crypt"), else "dm"
  std::optional<std::uint64_t> chunk_bytes;  // what goes to one member before the next
  std::vector<std::string> members;          // devices directly below, sorted

  friend bool operator==(const RaidLayer&, const RaidLayer&) = default;
};

// Of vm.dirty_*: when the kernel begins to write back, and when it stops those who write. Zero = the other unit counts.
struct DirtyLimits {
  std::optional<std::uint64_t> background_bytes, background_ratio, bytes, ratio, expire_centisecs, writeback_centisecs;

  // The two limits in bytes: a ratio is of the memory of the machine, an upper bound of what the kernel takes.
  std::optional<std::uint64_t> background_limit_bytes(std::optional<std::uint64_t> memory_bytes) const;
  std::optional<std::uint64_t> limit_bytes(std::optional<std::uint64_t> memory_bytes) const;
};

struct Probe {
  std::string directory;  // absolute
  std::optional<Mount> mount;
  bool is_network = false;  // the file system is on another machine (nfs, lustre, cifs, ceph, gpfs, FUSE of such)
  bool is_memory = false;  // files stay in the page cache (tmpfs, ramfs, an overlay of these): no device, no cold cache
  std::vector<std::string> disks;                // whole ones, as in disks.h
  nlohmann::json disk;                           // disk_facts of the first; the disks of an array are usually equal
  std::vector<std::string> schedulers_offered;   // by the kernel for the first disk
  std::optional<std::string> bdi;                // what holds the readahead of the file system: "254:0", "0:52"
  std::optional<std::uint64_t> readahead_bytes;  // of files of this file system
  std::vector<RaidLayer> raid;                   // outermost first
  // As the kernel states them for a file of the directory (statx); 0 = no direct I/O.
  std::optional<std::uint64_t> direct_align_bytes, direct_memory_align_bytes;
  bool takes_direct = false;                  // a file of the directory can be opened with O_DIRECT
  std::optional<std::uint64_t> free_bytes;    // unknown if the file system does not report its size
  std::optional<std::uint64_t> memory_bytes;  // of the machine, or of the cgroup if that is less
  // Of transparent huge pages: /sys/kernel/mm/transparent_hugepage/{enabled,defrag,shmem_enabled}
  std::optional<std::string> huge_pages, huge_pages_defrag, huge_pages_shmem;
  std::optional<int> numa_node;                    // of the first disk
  std::optional<std::uint64_t> numa_nodes;         // of the machine
  nlohmann::json gpu;                              // as machine_facts
  std::string gpudirect;                           // "available", or why the path gpudirect is not
  std::optional<std::uint64_t> io_uring_disabled;  // kernel.io_uring_disabled: 0, 1 or 2
  DirtyLimits dirty;
  std::vector<std::string> warnings;  // sentences: what cannot be measured here
};

// Creates an unnamed file in the directory to ask for its alignment and to try whether the page cache can be dropped.
// Errors: TZE-ENV-001 if there is no such directory;
// TZE-ENV-003 if it cannot be written to, with the reason: read-only file system, no permission.
Probe probe_storage(const std::string& directory);

// Throws TZE-ENV-003 if the file system is known to have less free room than that; the text has both numbers.
void require_room(const Probe& probe, std::uint64_t bytes);

// The member `probe` of the result document.
nlohmann::json to_json(const Probe& probe);

// Whether the file system is that of another machine, by its type in mountinfo ("nfs4", "fuse.sshfs").
bool is_network_file_system(std::string_view type);

// Fills in what follows from files of /proc and /sys; root holds both, device is that of the directory.
void add_system_facts(Probe& probe, const std::filesystem::path& root, dev_t device);

}  // namespace tzmark::bench
