// Limits of cgroups, from trees of files like those of /proc and /sys.
#include "harness/cgroup.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "testing/files/test_directory.h"

namespace tzmark::bench {
namespace {

class Cgroup : public testing::Test {
 protected:
  void add(const std::string& name, std::string_view text) {
    const std::filesystem::path path = std::filesystem::path(root_.name()) / name;
    std::filesystem::create_directories(path.parent_path());
    test::write_whole(path, std::as_bytes(std::span(text)));
  }
  CgroupLimits limits() const { return cgroup_limits(root_.name()); }

  test::TestDirectory root_;
};

TEST_F(Cgroup, WithoutOneThereIsNoLimit) {
  EXPECT_FALSE(limits().memory_bytes);
  EXPECT_FALSE(limits().memory_left_bytes);
  EXPECT_FALSE(memory_left_bytes(root_.name()));
  add("proc/self/cgroup", "0::/a\n");
  add("sys/fs/cgroup/a/memory.max", "max\n");
  add("sys/fs/cgroup/a/memory.current", "5000\n");
  EXPECT_FALSE(limits().memory_left_bytes);
  add("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   40 kB\n");
  EXPECT_EQ(memory_left_bytes(root_.name()), 40'960u);
}

TEST_F(Cgroup, WhatIsLeftIsTheLeastOnTheWayToTheRoot) {
  add("proc/self/cgroup", "0::/a/b\n");
  add("proc/meminfo", "MemAvailable:   400 kB\n");
  add("sys/fs/cgroup/a/b/memory.max", "10000\n");
  add("sys/fs/cgroup/a/b/memory.current", "2000\n");
  EXPECT_EQ(limits().memory_bytes, 10'000u);
  EXPECT_EQ(limits().memory_left_bytes, 8'000u);
  // Pages of files are given up.
  add("sys/fs/cgroup/a/b/memory.stat", "anon 500\ninactive_file 1000\nactive_file 500\nslab 9\n");
  EXPECT_EQ(limits().memory_left_bytes, 9'500u);
  // Others use the limit above, which is the larger one.
  add("sys/fs/cgroup/a/memory.max", "20000\n");
  add("sys/fs/cgroup/a/memory.current", "19000\n");
  EXPECT_EQ(limits().memory_bytes, 10'000u);
  EXPECT_EQ(limits().memory_left_bytes, 1'000u);
  add("sys/fs/cgroup/a/memory.current", "21000\n");
  EXPECT_EQ(limits().memory_left_bytes, 0u);
  EXPECT_EQ(memory_left_bytes(root_.name()), 0u);
}

TEST_F(Cgroup, VersionOneAlsoTellsLimitsThatAContainerDoesNotSee) {
  add("proc/self/cgroup", "4:memory:/docker/1\n0::/\n");
  // The container sees its own cgroup as the root.
  add("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  add("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n");
  EXPECT_FALSE(limits().memory_bytes);
  add("sys/fs/cgroup/memory/memory.stat",
      "inactive_file 1\ntotal_inactive_file 600\ntotal_active_file 400\nhierarchical_memory_limit 8000\n");
  EXPECT_EQ(limits().memory_bytes, 8'000u);
  EXPECT_EQ(limits().memory_left_bytes, 6'000u);
  add("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  EXPECT_EQ(limits().memory_bytes, 5'000u);
}

TEST_F(Cgroup, APathOutsideTheNamespaceIsNotFollowed) {
  add("proc/self/cgroup", "0::/../x\n");
  add("sys/fs/x/memory.max", "10\n");
  EXPECT_FALSE(limits().memory_bytes);
  add("sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(limits().memory_bytes, 4'096u);
}

}  // namespace
}  // namespace tzmark::bench
