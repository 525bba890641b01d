// Reads the files of the cgroups from this one to the root; see cgroup.h.
#include "harness/cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "harness/small_file.h"

namespace tzmark::bench {
namespace {

namespace fs = std::filesystem;

// Returns the path of the cgroup that a controller has for this process; "" is that of version 2.
std::optional<std::string> cgroup_of(const std::string& self_cgroup, std::string_view controller) {
  std::istringstream lines(self_cgroup);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    if (controller.empty() && second == first + 1) return line.substr(second + 1);
    for (std::string name; std::getline(names, name, ',');) {
      if (!controller.empty() && name == controller) return line.substr(second + 1);
    }
  }
  return {};
}

template <typename T>
void lower_to(std::optional<T>& limit, std::optional<std::type_identity_t<T>> other) {
  if (other) limit = std::min(limit.value_or(*other), *other);
}

// Calls visit for each cgroup from this one to the root of the hierarchy.
template <typename Visit>
void for_each_above(const fs::path& hierarchy, const std::string& group, const Visit& visit) {
  fs::path at = fs::path(group).relative_path();
  // A process that was moved out of its namespace has "/../x", which names nothing that is visible here.
  if (std::ranges::find(at, "..") != at.end()) at.clear();
  for (;; at = at.parent_path()) {
    visit(hierarchy / at);
    if (at.empty()) return;
  }
}

// "150000 100000": microseconds of the cores per period. "max 100000" and "-1 100000" are no limit.
std::optional<double> quota(const std::string& text) {
  std::istringstream words(text);
  double time = 0;
  double period = 0;
  if (!(words >> time >> period) || time <= 0 || period <= 0) return {};
  return time / period;
}

// The number after a word at the beginning of a line of memory.stat, "inactive_file 4096".
std::uint64_t stat_of(const std::string& stat, std::string_view name) {
  std::istringstream lines(stat);
  for (std::string word, value; lines >> word >> value;) {
    if (word == name) return std::strtoull(value.c_str(), nullptr, 10);
  }
  return 0;
}

// The files of one version.
struct MemoryFiles {
  const char *limit, *used;
  const char *inactive_pages, *active_pages;  // of files, in memory.stat
};
constexpr MemoryFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                                "total_active_file"};
constexpr MemoryFiles kVersion2{"memory.max", "memory.current", "inactive_file", "active_file"};

void add_memory(const fs::path& at, const MemoryFiles& files, CgroupLimits& limits) {
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;  // version 1 has a number near 2^63
  std::optional<std::uint64_t> limit = read_number(at / files.limit);
  const std::string stat = read_text(at / "memory.stat").value_or("");
  // Version 1 tells here what cgroups allow that a container does not see.
  const std::uint64_t above = stat_of(stat, "hierarchical_memory_limit");
  if (above != 0) lower_to(limit, above);
  if (!limit || *limit >= kNoLimit) return;
  lower_to(limits.memory_bytes, limit);
  const std::uint64_t used = read_number(at / files.used).value_or(0);
  const std::uint64_t of_files = stat_of(stat, files.inactive_pages) + stat_of(stat, files.active_pages);
  const std::uint64_t kept = used - std::min(used, of_files);
  lower_to(limits.memory_left_bytes, *limit - std::min(*limit, kept));
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& root) {
  const std::string self = read_text(root / "proc/self/cgroup").value_or("");
  const fs::path mounted = root / "sys/fs/cgroup";
  CgroupLimits limits;
  if (const auto group = cgroup_of(self, "")) {
    for (const fs::path& hierarchy : {mounted, mounted / "unified"}) {
      for_each_above(hierarchy, *group, [&](const fs::path& at) {
        lower_to(limits.cpu_cores, quota(read_value(at / "cpu.max").value_or("")));
        add_memory(at, kVersion2, limits);
      });
    }
  }
  if (const auto group = cgroup_of(self, "cpu")) {
    for_each_above(mounted / "cpu", *group, [&](const fs::path& at) {
      lower_to(limits.cpu_cores, quota(read_value(at / "cpu.cfs_quota_us").value_or("") + " " +
                                       read_value(at / "cpu.cfs_period_us").value_or("")));
    });
  }
  if (const auto group = cgroup_of(self, "memory")) {
    for_each_above(mounted / "memory", *group, [&](const fs::path& at) { add_memory(at, kVersion1, limits); });
  }
  return limits;
}

std::optional<std::uint64_t> memory_left_bytes(const fs::path& root) {
  std::optional<std::uint64_t> left = cgroup_limits(root).memory_left_bytes;
  const auto text = labelled(read_text(root / "proc/meminfo").value_or(""), "MemAvailable");
  if (text) lower_to(left, std::strtoull(text->c_str(), nullptr, 10) * std::uint64_t{1024});
  return left;
}

}  // namespace tzmark::bench
