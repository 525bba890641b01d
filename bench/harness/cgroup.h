// Limits that the cgroups of this process set: those of a container, of a job or of a service. Versions 1 and 2.
//
// Thread-safe; functions throw only std::bad_alloc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tzmark::bench {

// The lowest on the way from the cgroup of this process to the root of the hierarchy, as far as it is visible here.
// Nothing where there is no limit.
struct CgroupLimits {
  std::optional<double> cpu_cores;
  std::optional<std::uint64_t> memory_bytes;
  // Of the limit, what can still be taken: all but the memory that the kernel cannot give up, which is all that is used
  // except pages of files.
  std::optional<std::uint64_t> memory_left_bytes;
};

// root: holds proc and sys.
CgroupLimits cgroup_limits(const std::filesystem::path& root = "/");

// What this process may still take: that of the cgroup, or MemAvailable of the machine if it is less. Nothing if
// neither is known.
std::optional<std::uint64_t> memory_left_bytes(const std::filesystem::path& root = "/");

}  // namespace tzmark::bench
