// The byte counters of the storage of a directory: its disks, or what the client of a network file system moved.
// Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tzmark::bench {

// Counters since boot, or since the mount. Their difference around an operation includes other processes, and counts
// mirrored data twice.
struct DeviceCounters {
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;

  friend DeviceCounters operator-(const DeviceCounters& after, const DeviceCounters& before) {
    return {after.read_bytes - before.read_bytes, after.written_bytes - before.written_bytes};
  }
};

// Returns the sum over all disks below the directory, or what this machine got from the servers of NFS or Lustre and
// sent to them. Nothing for other file systems without a disk, and where the counters cannot be read: those of Lustre
// may be for root alone. Errors: TZE-ENV-001 if the directory does not exist.
std::optional<DeviceCounters> device_counters(const std::string& directory);

// Returns the sum over the named disks, from /proc/diskstats. Nothing if the text lacks one of them.
std::optional<DeviceCounters> parse_diskstats(std::string_view diskstats, const std::vector<std::string>& disks);

// Returns the bytes of the NFS mount at that directory, from /proc/self/mountstats. Nothing if the text lacks it.
std::optional<DeviceCounters> parse_mountstats(std::string_view mountstats, std::string_view mount_point);

// Returns the sum over the object storage targets of a Lustre file system ("scratch" of "mgs@tcp:/scratch").
// clients: a directory with a directory "scratch-OST0000-osc-ffff8d2f" for each target, as /proc/fs/lustre/osc. The
// counters of llite are no measure of storage: they include what the page cache had. Nothing without a
// target, or if one cannot be read.
std::optional<DeviceCounters> lustre_counters(const std::filesystem::path& clients, std::string_view file_system);

}  // namespace tzmark::bench
