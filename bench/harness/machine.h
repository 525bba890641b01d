// The facts of a machine that its figures depend on, as JSON for the result document.
//
// What a machine does not tell is null. Thread-safe. Errors: TZE-ENV rules if the directory cannot be looked at.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tzmark::bench {

// kernel, architecture, cpu, memory_bytes, transparent_huge_pages, gpu, storage (of the directory), load_average and
// versions. Starts fio once to ask for its version, and makes a nameless file in the directory for its alignment.
nlohmann::json machine_facts(const std::string& directory);

// What the sources of single facts say; machine_facts puts them together.
nlohmann::json storage_facts(const std::string& directory);
// cpuinfo: the text of /proc/cpuinfo.
nlohmann::json cpu_facts(std::string_view cpuinfo);
// The first GPU of NVIDIA's driver below the directory where it tells of itself; null without one.
nlohmann::json gpu_facts(const std::string& proc_driver_nvidia = "/proc/driver/nvidia");

}  // namespace tzmark::bench
