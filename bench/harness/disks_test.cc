// Disks below a directory with a fake sysfs, and the mount of a directory.
#include "harness/disks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/mount.h"
#include "harness/test_tmpfs.h"
#include "testing/files/test_directory.h"

namespace tzmark::bench {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

// sda with a partition, nvme0n1, and dm-0 over both.
class MadeUpSys : public testing::Test {
 protected:
  MadeUpSys() {
    add("8:0", "sda");
    add("8:3", "sda/sda3");
    test::write_whole(directory("sda/sda3") / "partition", std::as_bytes(std::span("3\n", 2)));
    add("259:0", "nvme0n1");
    add("253:0", "dm-0");
    add("9:0", "md0");
    below("dm-0", "sda/sda3");
    below("dm-0", "nvme0n1");
    below("md0", "dm-0");
    below("md0", "nvme0n1");
  }

  fs::path directory(const std::string& device) const { return sys_ / "devices" / device; }
  void add(const std::string& number, const std::string& device) {
    fs::create_directories(directory(device) / "slaves");
    fs::create_directories(sys_ / "dev" / "block");
    fs::create_directory_symlink(directory(device), sys_ / "dev" / "block" / number);
  }
  void below(const std::string& upper, const std::string& lower) {
    fs::create_directory_symlink(directory(lower), directory(upper) / "slaves" / fs::path(lower).filename());
  }

  test::TestDirectory directory_;
  fs::path sys_ = directory_.name();
};

TEST_F(MadeUpSys, IsFollowedDownToWholeDisks) {
  EXPECT_THAT(disks_below(sys_, 8, 0), ElementsAre("sda"));
  EXPECT_THAT(disks_below(sys_, 8, 3), ElementsAre("sda"));
  EXPECT_THAT(disks_below(sys_, 253, 0), ElementsAre("nvme0n1", "sda"));
  EXPECT_THAT(disks_below(sys_, 9, 0), ElementsAre("nvme0n1", "sda"));  // each once
  EXPECT_THAT(disks_below(sys_, 7, 7), IsEmpty());
}

TEST(Disks, AreNoneOfMemory) {
  const std::string tmpfs = "/dev/shm";
  if (!test::is_tmpfs(tmpfs)) GTEST_SKIP() << "no tmpfs at " << tmpfs;
  EXPECT_THAT(disks_below(tmpfs), IsEmpty());
}

TEST(Mount, IsTheLineOfItsNumber) {
  constexpr std::string_view kMountinfo =
      "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
      "27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard\n"
      "127 1 0:40 / /data\\040set ro - btrfs /dev/sdb ro,subvol=/x\n";
  const auto root = parse_mount(kMountinfo, "27");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->file_system, "ext4");
  EXPECT_EQ(root->source, "/dev/vda");
  EXPECT_EQ(root->options, "rw,relatime,rw,discard");
  EXPECT_EQ(root->point, "/");
  EXPECT_EQ(parse_mount(kMountinfo, "127")->file_system, "btrfs");
  EXPECT_EQ(parse_mount(kMountinfo, "127")->point, "/data set");
  EXPECT_EQ(parse_mount(kMountinfo, "22")->options, "rw,relatime,rw");
  EXPECT_FALSE(parse_mount(kMountinfo, "7"));
  EXPECT_FALSE(parse_mount("27 1 254:0 / / rw - ext4\n", "27"));
}

TEST(Mount, OfProc) {
  const auto mount = mount_of("/proc");
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->file_system, "proc");
}

}  // namespace
}  // namespace tzmark::bench
