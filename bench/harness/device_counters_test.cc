// Counters with texts of kernels, and with the disk that is here.
#include "harness/device_counters.h"

#include <gtest/gtest.h>

#include "harness/page_cache.h"
#include "harness/test_tmpfs.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDiskstats =
    "   8       0 sda 10 1 1000 5 20 2 2000 6 0 7 11 0 0 0 0 1 1\n"
    "   8       3 sda3 10 1 900 5 20 2 1900 6 0 7 11 0 0 0 0 1 1\n"
    " 259       0 nvme0n1 10 1 30 5 20 2 40 6 0 7 11\n";

TEST(Diskstats, CountsSectorsOf512Bytes) {
  const auto one = parse_diskstats(kDiskstats, {"sda"});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->read_bytes, 1000u * 512);
  EXPECT_EQ(one->written_bytes, 2000u * 512);
  const auto both = parse_diskstats(kDiskstats, {"nvme0n1", "sda"});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->read_bytes, 1030u * 512);
  EXPECT_EQ(both->written_bytes, 2040u * 512);
}

TEST(Diskstats, MissingDiskIsNothing) {
  EXPECT_FALSE(parse_diskstats(kDiskstats, {"sdb"}));
  EXPECT_FALSE(parse_diskstats(kDiskstats, {"sda", "sdb"}));
  EXPECT_FALSE(parse_diskstats("", {"sda"}));
}

TEST(DeviceCounters, SeeWhatTheDeviceDid) {
  constexpr std::size_t kBytes = 8 << 20;
  const test::TestDirectory directory;
  const auto before = device_counters(directory.name());
  if (!before) GTEST_SKIP() << "no block device below " << directory.name();
  const std::string file_name = directory / "file";
  test::write_whole(file_name, test::random_bytes(kBytes, 1));
  ASSERT_EQ(drop(file_name), 0);
  const auto written = device_counters(directory.name());
  warm(file_name);
  const auto read = device_counters(directory.name());
  ASSERT_TRUE(written && read);
  // Other processes may use the disk too, so the count may be higher but not lower.
  EXPECT_GE((*written - *before).written_bytes, kBytes);
  EXPECT_GE((*read - *written).read_bytes, kBytes);
}

// As a client of NFS 4.2 shows it, without some lines that nothing here reads.
constexpr std::string_view kMountstats =
    "device /dev/vda mounted on / with fstype ext4\n"
    "device server:/a mounted on /data with fstype nfs4 statvers=1.1\n"
    "\topts:\trw,vers=4.2,rsize=1048576\n"
    "\tage:\t38\n"
    "\tevents:\t3 45 0 0 2 1 50 4 0 4 0 4 0 0 1 0 0 1 0 0 4 0 0 0 0 0 0 \n"
    "\tbytes:\t4096 16777216 100 200 8388608 16777416 2048 4096 \n"
    "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
    "\n"
    "device server:/b mounted on /data\\040set with fstype nfs\n"
    "\tbytes:\t0 0 0 0 7 8 0 0 \n"
    "device server:/c mounted on /torn with fstype nfs\n"
    "\tbytes:\t0 0 0 0 7\n";

TEST(Mountstats, CountsWhatTheServerMoved) {
  const auto moved = parse_mountstats(kMountstats, "/data");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->read_bytes, 8388608u);
  EXPECT_EQ(moved->written_bytes, 16777416u);
  const auto escaped = parse_mountstats(kMountstats, "/data set");
  ASSERT_TRUE(escaped);
  EXPECT_EQ(escaped->read_bytes, 7u);
  EXPECT_EQ(escaped->written_bytes, 8u);
}

TEST(Mountstats, OtherMountsAreNothing) {
  for (const char* const point : {"/", "/other", "/torn", ""}) EXPECT_FALSE(parse_mountstats(kMountstats, point));
  EXPECT_FALSE(parse_mountstats("", "/data"));
}

class LustreCounters : public testing::Test {
 protected:
  void add_target(const std::string& name, std::string_view stats) {
    fs::create_directories(directory_ / name);
    test::write_whole(directory_ / name + "/stats", std::as_bytes(std::span(stats)));
  }

  const test::TestDirectory directory_;
};

constexpr std::string_view kStats =
    "snapshot_time             1409777887.590578 secs.usecs\n"
    "req_waittime              92 samples [usec] 42 1087 23456 9\n"
    "read_bytes                8 samples [bytes] 4096 1048576 4198400 4398046511104\n"
    "write_bytes               16 samples [bytes] 1048576 1048576 16777216 1\n"
    "ost_read                  8 samples [usec] 100 900 4000 1\n";

TEST_F(LustreCounters, AreSummedOverTheTargetsOfTheFileSystem) {
  add_target("scratch-OST0000-osc-ffff8d2f", kStats);
  add_target("scratch-OST0001-osc-ffff8d2f", kStats);
  add_target("scratch2-OST0000-osc-ffff8d2f", kStats);
  const auto moved = lustre_counters(directory_.name(), "scratch");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->read_bytes, 2 * 4198400u);
  EXPECT_EQ(moved->written_bytes, 2 * 16777216u);
}

TEST_F(LustreCounters, OfATargetThatWasNeverUsedAreZero) {
  add_target("scratch-OST0000-osc-ffff8d2f", "snapshot_time 1.5 secs.usecs\n");
  const auto moved = lustre_counters(directory_.name(), "scratch");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->read_bytes, 0u);
}

TEST_F(LustreCounters, OneThatCannotBeReadIsNothing) {
  EXPECT_FALSE(lustre_counters(directory_.name(), "scratch"));
  EXPECT_FALSE(lustre_counters(directory_ / "absent", "scratch"));
  add_target("scratch-OST0000-osc-ffff8d2f", kStats);
  fs::create_directories(directory_ / "scratch-OST0001-osc-ffff8d2f");
  EXPECT_FALSE(lustre_counters(directory_.name(), "scratch"));
}

TEST(DeviceCounters, NothingWithoutADevice) {
  const std::string tmpfs = "/dev/shm";
  if (!test::is_tmpfs(tmpfs)) GTEST_SKIP() << "no tmpfs at " << tmpfs;
  EXPECT_FALSE(device_counters(tmpfs));
}

TEST(DeviceCounters, AbsentDirectoryIsAnError) { EXPECT_THROW(device_counters("/no/such/directory"), Error); }

}  // namespace
}  // namespace tzmark::bench
