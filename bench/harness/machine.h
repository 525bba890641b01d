// Facts about the machine that affect results, as JSON for the result document.
//
// Unknown facts are null. Thread-safe. Errors: TZE-ENV rules if the directory cannot be read.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tzmark::bench {

// kernel, architecture, cpu, memory_bytes, transparent_huge_pages, gpu, storage (of the directory), load_average,
// versions, nice, and those of host_facts. Runs `fio --version`, and creates an unnamed file in the directory to query
// its alignment.
nlohmann::json machine_facts(const std::string& directory);

// The parts of machine_facts.
nlohmann::json storage_facts(const std::string& directory);
// cpuinfo: the text of /proc/cpuinfo.
nlohmann::json cpu_facts(std::string_view cpuinfo);
// hypervisor, l3_bytes, numa_nodes, frequency, mitigations, cgroup and vm. root: holds proc and sys.
nlohmann::json host_facts(const std::filesystem::path& root = "/");
// Settings of the queue of a disk: scheduler, readahead_bytes, write_cache, and its sizes. disk: its directory in
// sysfs.
nlohmann::json disk_facts(const std::filesystem::path& disk);
// The first GPU that NVIDIA's driver lists; null without one.
nlohmann::json gpu_facts(const std::string& proc_driver_nvidia = "/proc/driver/nvidia");

}  // namespace tzmark::bench
