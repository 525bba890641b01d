// The disks below a directory and their byte counters. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tzmark::bench {

// Returns whole disks by name ("vda"), in the order of sysfs; partitions, device mapper and md are resolved to the
// disks below them. Empty without a block device (tmpfs, network file systems, overlays). Errors: TZE-ENV-001 if the
// directory does not exist.
std::vector<std::string> disks_below(const std::string& directory);

// The same from a device number; sys is where sysfs is mounted.
std::vector<std::string> disks_below(const std::filesystem::path& sys, unsigned major, unsigned minor);

// Counters since boot. Their difference around an operation includes other processes, and counts mirrored data twice.
struct DeviceCounters {
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;

  friend DeviceCounters operator-(const DeviceCounters& after, const DeviceCounters& before) {
    return {after.read_bytes - before.read_bytes, after.written_bytes - before.written_bytes};
  }
};

// Returns the sum over all disks below the directory, from /proc/diskstats. Nothing without a disk.
std::optional<DeviceCounters> device_counters(const std::string& directory);

// Returns the sum over the named disks. Nothing if the text lacks one of them.
std::optional<DeviceCounters> parse_diskstats(std::string_view diskstats, const std::vector<std::string>& disks);

}  // namespace tzmark::bench
