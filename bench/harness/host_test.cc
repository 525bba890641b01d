// Facts about hosts, from trees of files like those of /proc and /sys.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/machine.h"
#include "testing/files/test_directory.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

class Host : public testing::Test {
 protected:
  void add(const std::string& name, std::string_view text) {
    const std::filesystem::path path = std::filesystem::path(root_.name()) / name;
    std::filesystem::create_directories(path.parent_path());
    test::write_whole(path, std::as_bytes(std::span(text)));
  }
  json facts() const { return host_facts(root_.name()); }

  test::TestDirectory root_;
};

TEST_F(Host, AbsentFactsAreNull) {
  EXPECT_EQ(facts(), json::parse(R"({
    "hypervisor": null, "l3_bytes": null, "numa_nodes": null, "frequency": {"min_khz": null, "max_khz": null},
    "mitigations": null, "cgroup": {"cpu_cores": null, "memory_bytes": null},
    "vm": {"dirty_background_bytes": null, "dirty_background_ratio": null, "dirty_bytes": null,
           "dirty_expire_centisecs": null, "dirty_ratio": null, "dirty_writeback_centisecs": null}})"));
}

TEST_F(Host, HypervisorHasTheNameOfTheFirmware) {
  add("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu sse avx2\n");
  add("sys/class/dmi/id/product_name", "PowerEdge\n");
  EXPECT_EQ(facts()["hypervisor"], nullptr);
  add("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor avx2\n");
  EXPECT_EQ(facts()["hypervisor"], "PowerEdge");
  add("sys/class/dmi/id/sys_vendor", "QEMU\n");
  EXPECT_EQ(facts()["hypervisor"], "QEMU PowerEdge");
  add("sys/hypervisor/type", "xen\n");
  EXPECT_EQ(facts()["hypervisor"], "xen");
}

TEST_F(Host, HypervisorWithoutFirmwareIsUnknown) {
  add("proc/cpuinfo", "flags\t\t: hypervisor\n");
  EXPECT_EQ(facts()["hypervisor"], "unknown");
}

TEST_F(Host, L3IsTheSumOfThoseThatDiffer) {
  const auto add_cache = [&](const std::string& at, const char* level, const char* size, const char* shared) {
    add("sys/devices/system/cpu/" + at + "/level", level);
    add("sys/devices/system/cpu/" + at + "/size", size);
    add("sys/devices/system/cpu/" + at + "/shared_cpu_list", shared);
  };
  add_cache("cpu0/cache/index2", "2\n", "1024K\n", "0\n");
  EXPECT_EQ(facts()["l3_bytes"], nullptr);
  add_cache("cpu0/cache/index3", "3\n", "32768K\n", "0-1\n");
  add_cache("cpu1/cache/index3", "3\n", "32768K\n", "0-1\n");
  add_cache("cpu2/cache/index3", "3\n", "16384K\n", "2\n");
  EXPECT_EQ(facts()["l3_bytes"], 48 << 20);
}

TEST_F(Host, SettingsAreNumbers) {
  add("sys/devices/system/node/node0/cpulist", "0\n");
  add("sys/devices/system/node/node12/cpulist", "1\n");
  add("sys/devices/system/node/possible", "0-1\n");
  add("sys/devices/system/cpu/vulnerabilities/retbleed", "Mitigation: IBRS\n");
  add("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3200000\n");
  add("proc/sys/vm/dirty_ratio", "20\n");
  const json found = facts();
  EXPECT_EQ(found["numa_nodes"], 2);
  EXPECT_EQ(found["mitigations"], json::parse(R"({"retbleed": "Mitigation: IBRS"})"));
  EXPECT_EQ(found["frequency"]["max_khz"], 3'200'000);
  EXPECT_EQ(found["vm"]["dirty_ratio"], 20);
}

TEST_F(Host, CgroupLimitsAreTheLowestOnTheWayToTheRoot) {
  add("proc/self/cgroup", "0::/a/b\n");
  add("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  add("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(facts()["cgroup"], json::parse(R"({"cpu_cores": null, "memory_bytes": null})"));
  add("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  add("sys/fs/cgroup/a/b/memory.max", "4096\n");
  add("sys/fs/cgroup/a/memory.max", "8192\n");
  EXPECT_EQ(facts()["cgroup"], json::parse(R"({"cpu_cores": 1.5, "memory_bytes": 4096})"));
  // In a container, the root is that of its namespace.
  add("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(facts()["cgroup"]["cpu_cores"], 0.5);
}

TEST_F(Host, CgroupLimitsOfVersionOne) {
  add("proc/self/cgroup", "4:memory:/c\n1:cpu,cpuacct:/\n0::/\n");
  add("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  add("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  add("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(facts()["cgroup"], json::parse(R"({"cpu_cores": null, "memory_bytes": null})"));
  add("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  add("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1048576\n");
  EXPECT_EQ(facts()["cgroup"], json::parse(R"({"cpu_cores": 2.0, "memory_bytes": 1048576})"));
}

TEST_F(Host, DisksHaveTheSettingsOfTheirQueues) {
  const json none = disk_facts(root_.name() + "/none");
  for (const auto& [name, value] : none.items()) EXPECT_EQ(value, nullptr) << name;
  add("sda/queue/read_ahead_kb", "128\n");
  add("sda/queue/write_cache", "write back\n");
  add("sda/queue/scheduler", "none [mq-deadline]\n");
  add("sda/queue/rotational", "1\n");
  const json found = disk_facts(root_.name() + "/sda");
  EXPECT_EQ(found["readahead_bytes"], 128 << 10);
  EXPECT_EQ(found["write_cache"], "write back");
  EXPECT_EQ(found["scheduler"], "mq-deadline");
  EXPECT_EQ(found["rotational"], true);
}

}  // namespace
}  // namespace tzmark::bench
