// Queries the kernel, the libraries and fio; see machine.h.
#include "harness/machine.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "harness/fio.h"
#include "harness/or_null.h"
#include "harness/small_file.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

// The CPU features that hashing, encryption and copying depend on: first of x86, then of Arm.
constexpr std::array<std::string_view, 20> kFeatures = {
    "ssse3", "sse4_2",     "aes",    "pclmulqdq", "bmi2", "avx",  "avx2",   "avx512f", "avx512bw", "avx512vl",
    "vaes",  "vpclmulqdq", "sha_ni", "pmull",     "sha1", "sha2", "sha512", "crc32",   "asimd",    "sve"};

json huge_page_facts() {
  const std::filesystem::path directory = "/sys/kernel/mm/transparent_hugepage";
  const auto setting = [&](const char* name) { return or_null(chosen(read_value(directory / name).value_or(""))); };
  return {{"enabled", setting("enabled")}, {"defrag", setting("defrag")}};
}

// "16384 kB"
json memory_bytes() {
  const auto total = labelled(read_text("/proc/meminfo").value_or(""), "MemTotal");
  return total ? json(std::strtoull(total->c_str(), nullptr, 10) * 1024) : json();
}

json load_average() {
  std::array<double, 3> load{};
  if (::getloadavg(load.data(), static_cast<int>(load.size())) != 3) return json();
  return load;
}

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

json versions() {
  // Libraries without a version at run time have the version found by the build.
  return {{"liburing", TZMARK_LIBURING_VERSION},
          {"OpenSSL", ::OpenSSL_version(OPENSSL_VERSION_STRING)},
          {"libsodium", ::sodium_version_string()},
          {"ISA-L", TZMARK_ISAL_VERSION},
          {"zlib", ::zlibVersion()},
          {"fio", or_null(fio_version())},
          {"Google Benchmark", TZMARK_BENCHMARK_VERSION},
          {"compiler", kCompiler}};
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..."
std::optional<std::string> driver_version(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0 && word.find('.') != std::string::npos) return word;
  }
  return {};
}

}  // namespace

json cpu_facts(std::string_view cpuinfo) {
  // The label is "flags" on x86 and "Features" on Arm, which has no model name.
  std::istringstream words(labelled(cpuinfo, "flags").value_or(labelled(cpuinfo, "Features").value_or("")));
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  json features = json::array();
  for (const std::string_view feature : kFeatures) {
    if (flags.contains(std::string(feature))) features.push_back(feature);
  }
  return {{"model", or_null(labelled(cpuinfo, "model name"))},
          {"cores", std::thread::hardware_concurrency()},
          {"features", features},
          {"governor", or_null(read_value("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))}};
}

json gpu_facts(const std::string& proc_driver_nvidia) {
  std::vector<std::filesystem::path> gpus;
  std::error_code absent;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(proc_driver_nvidia) / "gpus", absent)) {
    gpus.push_back(entry.path());
  }
  if (gpus.empty()) return json();
  const auto name = labelled(read_text(std::ranges::min(gpus) / "information").value_or(""), "Model");
  const auto version = read_text(std::filesystem::path(proc_driver_nvidia) / "version");
  return {{"name", or_null(name)}, {"driver", or_null(driver_version(version.value_or("")))}};
}

json machine_facts(const std::string& directory) {
  utsname names{};
  ::uname(&names);
  json facts = {{"kernel", names.release},
                {"architecture", names.machine},
                {"cpu", cpu_facts(read_text("/proc/cpuinfo").value_or(""))},
                {"memory_bytes", memory_bytes()},
                {"transparent_huge_pages", huge_page_facts()},
                {"gpu", gpu_facts()},
                {"storage", storage_facts(directory)},
                {"load_average", load_average()},
                {"versions", versions()},
                {"nice", ::getpriority(PRIO_PROCESS, 0)}};
  facts.update(host_facts());
  return facts;
}

}  // namespace tzmark::bench
