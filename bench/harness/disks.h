// The disks below a directory, and the bytes that went from and to them. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tzmark::bench {

// Whole disks by name ("vda"): partitions, device mapper and md are followed down to what is below them, in the order
// in which sysfs lists it. Empty where there is no block device (tmpfs, network file systems, overlays).
// Errors: TZE-ENV-001 if there is no such directory.
std::vector<std::string> disks_below(const std::string& directory);

// The same from a device number; sys is where sysfs is mounted.
std::vector<std::string> disks_below(const std::filesystem::path& sys, unsigned major, unsigned minor);

// Since the machine started, by everyone: the difference around an operation holds whatever else ran. Data that a
// device mapper keeps twice counts twice.
struct DeviceCounters {
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;

  friend DeviceCounters operator-(const DeviceCounters& after, const DeviceCounters& before) {
    return {after.read_bytes - before.read_bytes, after.written_bytes - before.written_bytes};
  }
};

// Of all disks below the directory together, from /proc/diskstats. Nothing where there is no disk.
std::optional<DeviceCounters> device_counters(const std::string& directory);

// The sum over the named disks. Nothing if one of them is not in the text.
std::optional<DeviceCounters> parse_diskstats(std::string_view diskstats, const std::vector<std::string>& disks);

}  // namespace tzmark::bench
