// The disks below a directory. Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tzmark::bench {

// Returns whole disks by name ("vda"), in the order of sysfs; partitions, device mapper and md are resolved to the
// disks below them. Empty without a block device (tmpfs, network file systems, overlays). Errors: TZE-ENV-001 if the
// directory does not exist.
std::vector<std::string> disks_below(const std::string& directory);

// The same from a device number; sys is where sysfs is mounted.
std::vector<std::string> disks_below(const std::filesystem::path& sys, unsigned major, unsigned minor);

}  // namespace tzmark::bench
