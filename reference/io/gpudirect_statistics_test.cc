// Tests of what is said about the way that bytes took: by the stand-in's statistics, and by counts made up here.
#include "io/gpudirect_statistics.h"

#include <gmock/gmock.h>

#include <cstring>

#include "io/cufile.h"
#include "testing/caught.h"
#include "testing/gpu/fake_libraries.h"
#include "tzmark/error.h"

namespace tzmark::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMiB = 1 << 20;

class GpuDirectObserverTest : public GpuDirectTest {
 protected:
  void TearDown() override {
    fakes().root().remove("/proc/driver/nvidia-fs/stats");
    GpuDirectTest::TearDown();
  }

  // Writes 4 MiB in four calls and reads the half in two.
  GpuDirectAttestation move_and_attest() {
    const auto file = create();
    const DeviceMemory memory(kMiB);
    GpuDirectObserver observer;
    observer.begin();
    for (std::uint64_t piece = 0; piece < 4; ++piece) file->write_at(piece * kMiB, memory.buffer());
    for (std::uint64_t piece = 0; piece < 2; ++piece) file->read_at(piece * kMiB, memory.buffer());
    return observer.end();
  }
};

// Six operations, in the form of nvidia-fs 2.28.
std::string nvidia_fs_file(std::uint64_t reads, std::uint64_t read_mib, std::uint64_t writes, std::uint64_t write_mib) {
  return "GDS Version: 1.18.0.66 \nNVFS statistics(ver: 4.0)\nIO stats: Enabled, peer IO stats: Disabled\n"
         "Batches\t\t\t\t: n=9 ok=9 err=0 Avg-Submit-Latency(usec)=0\n"
         "Reads\t\t\t\t: n=" +
         std::to_string(reads) + " ok=1 err=0 readMiB=" + std::to_string(read_mib) +
         " io_state_err=0\nReads\t\t\t\t: Bandwidth(MiB/s)=7 Avg-Latency(usec)=9\n"
         "Sparse Reads\t\t        : n=3 io=0 holes=0 pages=0 \n"
         "Writes\t\t\t\t: n=" +
         std::to_string(writes) + " ok=1 err=0 writeMiB=" + std::to_string(write_mib) +
         " io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0\n";
}

TEST_F(GpuDirectObserverTest, EachRouteIsNamed) {
  orders().route = FakeRoute::kP2p;
  GpuDirectAttestation attestation = move_and_attest();
  EXPECT_EQ(attestation.route, "p2p");
  EXPECT_EQ(attestation.source, "cuFileGetStatsL3");
  EXPECT_EQ(attestation.note, "");
  EXPECT_EQ(attestation.p2p_bytes, 6 * kMiB);
  EXPECT_EQ(attestation.nvfs_bytes + attestation.posix_bytes + attestation.edge_bytes, 0U);

  orders().route = FakeRoute::kNvidiaFs;
  attestation = move_and_attest();
  EXPECT_EQ(attestation.route, "nvidia-fs");
  EXPECT_EQ(attestation.nvfs_bytes, 6 * kMiB);

  orders().route = FakeRoute::kPosix;
  attestation = move_and_attest();
  EXPECT_EQ(attestation.route, "posix");
  EXPECT_EQ(attestation.posix_bytes, 6 * kMiB);
}

TEST_F(GpuDirectObserverTest, SeveralRoutesAreMixedAndSayThatBytesAreShares) {
  orders().route = FakeRoute::kInTurn;
  const GpuDirectAttestation attestation = move_and_attest();
  EXPECT_EQ(attestation.route, "mixed");
  EXPECT_EQ(attestation.p2p_bytes, 3 * kMiB);
  EXPECT_EQ(attestation.posix_bytes, 3 * kMiB);
  EXPECT_THAT(attestation.note, HasSubstr("apportioned"));
}

TEST_F(GpuDirectObserverTest, WhatHasNoRouteIsUnknown) {
  orders().route = FakeRoute::kUnnamed;
  const GpuDirectAttestation attestation = move_and_attest();
  EXPECT_EQ(attestation.route, "unknown");
  EXPECT_EQ(attestation.source, "none");
  EXPECT_THAT(attestation.note, HasSubstr("it counted 6 operations and no route"));
  EXPECT_THAT(attestation.note, HasSubstr("/proc/driver/nvidia-fs/stats cannot be read"));
}

TEST_F(GpuDirectObserverTest, StatisticsThatMissBytesProveNothing) {
  orders().counts_bytes = false;
  EXPECT_THAT(move_and_attest().note, HasSubstr("it counted 0 of 6291456 bytes"));
  orders().statistics_error = 5022;
  const GpuDirectAttestation attestation = move_and_attest();
  EXPECT_EQ(attestation.route, "unknown");
  EXPECT_THAT(attestation.note, HasSubstr("cuFileGetStatsL3: CU_FILE_INVALID_VALUE (5022)"));
}

TEST_F(GpuDirectObserverTest, NvidiaFsIsAskedNext) {
  orders().statistics_error = 5022;
  const auto file = create();
  const DeviceMemory memory(4 * kMiB);
  fakes().root().write("/proc/driver/nvidia-fs/stats", nvidia_fs_file(10, 100, 20, 200));
  GpuDirectObserver observer;
  observer.begin();
  file->write_at(0, memory.buffer());
  file->read_at(0, memory.buffer());
  fakes().root().write("/proc/driver/nvidia-fs/stats", nvidia_fs_file(11, 104, 21, 204));
  const GpuDirectAttestation attestation = observer.end();
  EXPECT_EQ(attestation.route, "nvidia-fs");
  EXPECT_EQ(attestation.source, "/proc/driver/nvidia-fs/stats");
  EXPECT_EQ(attestation.nvfs_bytes, 8 * kMiB);
}

TEST_F(GpuDirectObserverTest, EndsOfWritesAreCountedApart) {
  const auto file = create();
  const DeviceMemory memory(20'000);
  GpuDirectObserver observer;
  observer.begin();
  file->write_at(1, memory.buffer());
  const GpuDirectAttestation attestation = observer.end();
  // Of blocks of 4096 bytes, 1 to 20001 holds three whole ones.
  EXPECT_EQ(attestation.posix_bytes % 4'096, 0U);
  EXPECT_EQ(attestation.posix_bytes + attestation.edge_bytes, 20'000U);
  EXPECT_GT(attestation.edge_bytes, 0U);
}

TEST_F(GpuDirectObserverTest, NothingMovedIsNoRoute) {
  GpuDirectObserver observer;
  observer.begin();
  const auto file = create();
  Bytes host(100);
  file->write_at(0, std::span(host));
  const GpuDirectAttestation attestation = observer.end();
  EXPECT_EQ(attestation.route, "unknown");
  EXPECT_EQ(attestation.note, "libcufile transferred no bytes");
}

TEST_F(GpuDirectObserverTest, LeavesTheLevelOfStatisticsAsItWas) {
  orders().statistics_level = 1;
  GpuDirectObserver observer;
  observer.begin();
  EXPECT_EQ(orders().statistics_level, 3);
  observer.end();
  EXPECT_EQ(orders().statistics_level, 1);
  orders().statistics_level = 0;
  EXPECT_EQ(caught([&] { observer.end(); }), failure(ErrorCode::kUsage));
}

GpuDirectSnapshot snapshot(std::uint64_t moved_bytes) {
  GpuDirectSnapshot result;
  result.cufile.why_not = "not asked";
  result.nvidia_fs.why_not = "not asked";
  result.read_bytes = moved_bytes;
  return result;
}

TEST(GpuDirectAttest, OperationsByAnotherWayAreMixed) {
  GpuDirectSnapshot before = snapshot(0), after = snapshot(100);
  before.cufile.counts = CuFileCounts{{5, 5, 0, 0, 1'000}, {}};
  after.cufile.counts = CuFileCounts{{15, 11, 0, 0, 1'100}, {}};
  const GpuDirectAttestation attestation = attest(before, after);
  EXPECT_EQ(attestation.route, "mixed");
  EXPECT_EQ(attestation.note, "4 of 10 operations used another route");
}

TEST(GpuDirectAttest, CountersThatWereResetProveNothing) {
  GpuDirectSnapshot before = snapshot(0), after = snapshot(100);
  before.cufile.counts = CuFileCounts{{5, 5, 0, 0, 1'000}, {}};
  after.cufile.counts = CuFileCounts{{6, 0, 0, 6, 2'000}, {}};
  before.nvidia_fs.counts = NvidiaFsCounts{5, 5 * kMiB, 0, 0};
  after.nvidia_fs.counts = NvidiaFsCounts{1, kMiB, 0, 0};
  const GpuDirectAttestation attestation = attest(before, after);
  EXPECT_EQ(attestation.route, "unknown");
  EXPECT_EQ(
      attestation.note,
      "cuFileGetStatsL3: the counters were reset meanwhile; /proc/driver/nvidia-fs/stats: the counters were reset "
      "meanwhile");
}

TEST(GpuDirectAttest, WritesAreNotProvedByReads) {
  GpuDirectSnapshot before = snapshot(0), after = snapshot(100);
  after.write_bytes = 100;
  before.cufile.counts = CuFileCounts{};
  after.cufile.counts = CuFileCounts{{1, 1, 0, 0, 200}, {}};
  EXPECT_EQ(attest(before, after).route, "unknown");
}

TEST(GpuDirectAttest, NvidiaFsIsTheWholeMachines) {
  GpuDirectSnapshot before = snapshot(0), after = snapshot(100 * kMiB);
  before.nvidia_fs.counts = NvidiaFsCounts{};
  after.nvidia_fs.counts = NvidiaFsCounts{10, 99 * kMiB, 0, 0};
  EXPECT_EQ(attest(before, after).route, "nvidia-fs");
  after.nvidia_fs.counts = NvidiaFsCounts{10, 120 * kMiB, 0, 0};
  EXPECT_EQ(attest(before, after).route, "unknown");
  EXPECT_THAT(attest(before, after).note, HasSubstr("another process uses it, too"));
  after.nvidia_fs.counts = NvidiaFsCounts{10, 60 * kMiB, 0, 0};
  EXPECT_EQ(attest(before, after).route, "mixed");
  EXPECT_EQ(attest(before, after).nvfs_bytes, 60 * kMiB);
  after.nvidia_fs.counts = NvidiaFsCounts{};
  EXPECT_EQ(attest(before, after).route, "unknown");
  EXPECT_THAT(attest(before, after).note, HasSubstr("nvidia-fs transferred nothing"));
}

TEST(GpuDirectNvidiaFs, IsParsed) {
  const auto counted = parse_nvidia_fs(nvidia_fs_file(3, 12, 5, 40));
  ASSERT_TRUE(counted.counts) << counted.why_not;
  EXPECT_EQ(counted.counts->reads, 3U);
  EXPECT_EQ(counted.counts->read_bytes, 12 * kMiB);
  EXPECT_EQ(counted.counts->writes, 5U);
  EXPECT_EQ(counted.counts->write_bytes, 40 * kMiB);
}

TEST(GpuDirectNvidiaFs, SaysWhyItIsNot) {
  EXPECT_THAT(parse_nvidia_fs("IO stats: Disabled, peer IO stats: Disabled\nReads\t: err=0 io_state_err=0\n").why_not,
              HasSubstr("rw_stats_enabled"));
  EXPECT_THAT(parse_nvidia_fs("").why_not, HasSubstr("unknown form"));
  EXPECT_THAT(parse_nvidia_fs("Reads : n=x readMiB=\nWrites : n= writeMiB=1").why_not, HasSubstr("unknown form"));
}

// One GPU that read 7 and wrote 9 bytes, as a version fills it.
template <typename Statistics>
std::vector<std::byte> filled_by() {
  Statistics statistics{};
  statistics.level1.fill(77);
  statistics.gpus = 1;
  statistics.gpu[0].reads.bytes = 7;
  statistics.gpu[0].writes.bytes = 9;
  statistics.gpu[0].writes.posix = 1;
  statistics.gpu[1].reads.bytes = 1'000;  // of a GPU that is not there
  std::vector<std::byte> bytes(sizeof statistics + 100);
  std::memcpy(bytes.data(), &statistics, sizeof statistics);
  return bytes;
}

TEST(GpuDirectCuFileStatistics, EachVersionHasItsLayout) {
  const auto old_layout = filled_by<CuFileStatistics115>(), new_layout = filled_by<CuFileStatistics119>();
  for (const int version : {1150, 1180, 1189, 1190, 1200}) {
    const auto counted = parse_cufile(version, version < 1190 ? old_layout : new_layout);
    ASSERT_TRUE(counted.counts) << version << counted.why_not;
    EXPECT_EQ(counted.counts->reads, (RouteCounts{0, 0, 0, 0, 7})) << version;
    EXPECT_EQ(counted.counts->writes, (RouteCounts{0, 0, 0, 1, 9})) << version;
    EXPECT_EQ(parse_cufile(version, version < 1190 ? new_layout : old_layout).counts.has_value(), false) << version;
  }
}

TEST(GpuDirectCuFileStatistics, UnknownVersionsAreNotGuessed) {
  const auto new_layout = filled_by<CuFileStatistics119>();
  for (const int version : {0, 1140, 1210, 2000}) {
    EXPECT_FALSE(parse_cufile(version, new_layout).counts) << version;
  }
  EXPECT_EQ(parse_cufile(1210, new_layout).why_not, "the layout of cuFile 1.21 is not known");
  EXPECT_THAT(parse_cufile(1200, std::span(new_layout).first(100)).why_not, HasSubstr("too short"));
}

}  // namespace
}  // namespace tzmark::test
