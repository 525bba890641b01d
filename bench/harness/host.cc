// Facts about the host that decide how fast memory and threads are; see machine.h.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/cgroup.h"
#include "harness/machine.h"
#include "harness/or_null.h"
#include "harness/small_file.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Returns the entries of a directory whose names are the word and a number, "node0".
std::vector<fs::path> numbered(const fs::path& directory, std::string_view word) {
  std::vector<fs::path> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(directory, absent)) {
    const std::string name = entry.path().filename();
    const bool matches = name.starts_with(word) && name.size() > word.size();
    if (matches && name.find_first_not_of("0123456789", word.size()) == std::string::npos) found.push_back(entry);
  }
  std::ranges::sort(found);
  return found;
}

// A name as far as the firmware or the hypervisor gives one; null on hardware.
json hypervisor(const fs::path& root) {
  const fs::path sys = root / "sys";
  if (const auto type = read_value(sys / "hypervisor" / "type")) return *type;
  if (const auto tree = read_value(root / "proc/device-tree/hypervisor/compatible")) return "device tree";
  std::istringstream flags(labelled(read_text(root / "proc/cpuinfo").value_or(""), "flags").value_or(""));
  for (std::string flag; flags >> flag;) {
    if (flag != "hypervisor") continue;
    std::string name;
    for (const char* file : {"sys_vendor", "product_name"}) {
      const std::string word = read_value(sys / "class/dmi/id" / file).value_or("");
      if (!word.empty()) name += (name.empty() ? "" : " ") + word;
    }
    return name.empty() ? "unknown" : name;
  }
  return nullptr;
}

// The sum of all L3 caches. "32768K"
json l3_bytes(const fs::path& root) {
  std::map<std::string, std::uint64_t> caches;  // by the CPUs that share one
  for (const fs::path& cpu : numbered(root / "sys/devices/system/cpu", "cpu")) {
    for (const fs::path& cache : numbered(cpu / "cache", "index")) {
      if (read_number(cache / "level") != 3) continue;
      const std::string size = read_value(cache / "size").value_or("");
      const auto shared = read_value(cache / "shared_cpu_list");
      if (size.ends_with('K')) caches[shared.value_or("")] = std::strtoull(size.c_str(), nullptr, 10) * 1024;
    }
  }
  std::uint64_t sum = 0;
  for (const auto& [cpus, bytes] : caches) sum += bytes;
  return sum != 0 ? json(sum) : json();
}

json mitigations(const fs::path& root) {
  json found = json::object();
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/cpu/vulnerabilities", absent)) {
    if (const auto state = read_value(entry.path())) found[entry.path().filename().string()] = *state;
  }
  return found.empty() ? json() : found;
}

json cgroup(const fs::path& root) {
  const CgroupLimits limits = cgroup_limits(root);
  return {{"cpu_cores", or_null(limits.cpu_cores)}, {"memory_bytes", or_null(limits.memory_bytes)}};
}

json vm_settings(const fs::path& root) {
  json settings = json::object();
  for (const char* name : {"dirty_background_bytes", "dirty_background_ratio", "dirty_bytes", "dirty_expire_centisecs",
                           "dirty_ratio", "dirty_writeback_centisecs"}) {
    settings[name] = or_null(read_number(root / "proc/sys/vm" / name));
  }
  return settings;
}

}  // namespace

json host_facts(const fs::path& root) {
  const std::size_t nodes = numbered(root / "sys/devices/system/node", "node").size();
  const fs::path frequency = root / "sys/devices/system/cpu/cpu0/cpufreq";
  const auto khz = [&](const char* name) { return or_null(read_number(frequency / name)); };
  return {{"hypervisor", hypervisor(root)},
          {"l3_bytes", l3_bytes(root)},
          {"numa_nodes", nodes != 0 ? json(nodes) : json()},
          {"frequency", {{"min_khz", khz("scaling_min_freq")}, {"max_khz", khz("scaling_max_freq")}}},
          {"mitigations", mitigations(root)},
          {"cgroup", cgroup(root)},
          {"vm", vm_settings(root)}};
}

}  // namespace tzmark::bench
