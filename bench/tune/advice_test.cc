// Advice: which fact leads to which change, and that a fact as advised leads to none.
#include "tune/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tzmark::bench {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Setting setting(const std::string& io, Pages pages = Pages::kSmall) {
  return {.io = io, .block_bytes = 1 << 20, .queue_depth = 16, .threads = 2, .pages = pages};
}

std::vector<TaskAnswer> answers(const std::string& io, Pages pages = Pages::kSmall) {
  const std::vector<std::string> paths = {"pwrite", "direct", "uring", "uring-direct"};
  std::vector<TaskAnswer> list;
  for (const char* task : {"load-warm", "load-cold", "save"}) {
    list.push_back({.task = task, .recommended = setting(io, pages), .bytes = 1 << 30, .paths = paths});
  }
  return list;
}

// Nothing to change: an NVMe disk with its own order, ext4, huge pages on request.
Probe well_tuned() {
  Probe probe;
  probe.directory = "/data/tune";
  probe.mount = Mount{"ext4", "rw,relatime", "/dev/nvme0n1p1", "/data set"};
  probe.disks = {"nvme0n1"};
  probe.disk = {{"scheduler", "none"}, {"rotational", false}};
  probe.schedulers_offered = {"none", "mq-deadline"};
  probe.bdi = "259:0";
  probe.readahead_bytes = 16 << 20;
  probe.takes_direct = true;
  probe.huge_pages = "always";
  probe.huge_pages_defrag = "madvise";
  probe.numa_nodes = 1;
  probe.numa_node = 0;
  probe.io_uring_disabled = 0;
  probe.memory_bytes = std::uint64_t{8} << 30;
  probe.dirty.background_bytes = 64 << 20;
  return probe;
}

std::vector<Advice> advise_all(const Probe& probe, const std::string& io, Pages pages = Pages::kSmall) {
  return advise(probe, answers(io, pages));
}

// The tasks that get an advice with this word, in order.
std::vector<std::string> tasks_of(const std::vector<Advice>& list, const std::string& word) {
  std::vector<std::string> tasks;
  for (const Advice& advice : list) {
    if (advice.what.find(word) != std::string::npos) tasks.push_back(advice.task);
  }
  return tasks;
}

Advice only(const std::vector<Advice>& list) {
  EXPECT_EQ(list.size(), 1u);
  return list.empty() ? Advice() : list.front();
}

using Tasks = std::vector<std::string>;

TEST(Advice, NoneWhereTheMachineIsAsAdvised) { EXPECT_THAT(advise_all(well_tuned(), "uring"), IsEmpty()); }

TEST(Advice, NoneForUnknownFacts) {
  Probe unknown;
  unknown.disk = {{"scheduler", nullptr}, {"rotational", nullptr}};
  EXPECT_THAT(advise_all(unknown, "pwrite", Pages::kHuge), IsEmpty());
  EXPECT_THAT(advise_all(Probe(), "uring-direct", Pages::kHuge), IsEmpty());
}

TEST(Advice, ReadaheadOfColdLoads) {
  Probe probe = well_tuned();
  probe.readahead_bytes = 128 << 10;
  const Advice local = only(advise_all(probe, "pwrite"));
  EXPECT_EQ(local.task, "load-cold");
  EXPECT_EQ(local.command, "echo 4096 | sudo tee /sys/class/bdi/259:0/read_ahead_kb");
  EXPECT_THAT(local.why, HasSubstr("128 KiB"));
  EXPECT_TRUE(local.needs_root);
  EXPECT_FALSE(local.trial);
  probe.readahead_bytes = 4 << 20;
  EXPECT_THAT(advise_all(probe, "pwrite"), IsEmpty());
  probe.is_network = true;
  EXPECT_EQ(only(advise_all(probe, "pwrite")).what, "Raise the readahead to 16 MiB");
  probe.bdi.reset();
  EXPECT_THAT(advise_all(probe, "pwrite"), IsEmpty());
}

TEST(Advice, ReadaheadSaysThatADirectPathDoesNotUseIt) {
  Probe probe = well_tuned();
  probe.readahead_bytes = 128 << 10;
  const auto list = advise_all(probe, "uring-direct");
  const auto found = std::ranges::find(list, "Raise the readahead to 4 MiB", &Advice::what);
  ASSERT_NE(found, list.end());
  EXPECT_THAT(found->why, HasSubstr("uring-direct, does not use it"));
}

TEST(Advice, SchedulerOfEachDisk) {
  Probe probe = well_tuned();
  probe.disks = {"nvme0n1", "nvme1n1"};
  probe.disk["scheduler"] = "mq-deadline";
  const auto list = advise_all(probe, "uring");
  EXPECT_EQ(tasks_of(list, "scheduler"), (Tasks{"load-cold", "save"}));
  EXPECT_EQ(list[0].command,
            "echo none | sudo tee /sys/block/nvme0n1/queue/scheduler; "
            "echo none | sudo tee /sys/block/nvme1n1/queue/scheduler");
  probe.schedulers_offered = {"mq-deadline"};
  EXPECT_THAT(advise_all(probe, "uring"), IsEmpty());
  probe.schedulers_offered = {"none", "mq-deadline", "bfq"};
  probe.disk["rotational"] = true;
  EXPECT_THAT(advise_all(probe, "uring"), IsEmpty());
  probe.disk["scheduler"] = "bfq";
  EXPECT_EQ(tasks_of(advise_all(probe, "uring"), "to mq-deadline"), (Tasks{"load-cold", "save"}));
}

TEST(Advice, MountOptions) {
  Probe probe = well_tuned();
  probe.mount->options = "rw,strictatime,sync,data=journal";
  const auto list = advise_all(probe, "uring");
  EXPECT_EQ(tasks_of(list, "noatime"), (Tasks{"load-warm", "load-cold"}));
  EXPECT_EQ(list[0].command, "sudo mount -o remount,noatime '/data set'");
  EXPECT_EQ(tasks_of(list, "without the option sync"), Tasks{"save"});
  EXPECT_EQ(tasks_of(list, "journal metadata only"), Tasks{"save"});
}

TEST(Advice, ConnectionsAndSizesOfNfs) {
  Probe probe = well_tuned();
  probe.is_network = true;
  probe.mount = Mount{"nfs4", "rw,vers=4.2,rsize=65536,wsize=1048576,sec=sys,addr=10.0.0.1", "server:/m", "/m"};
  const auto list = advise_all(probe, "uring");
  EXPECT_EQ(tasks_of(list, "nconnect"), (Tasks{"load-cold", "save"}));
  EXPECT_EQ(list[0].command, "sudo umount /m && sudo mount -t nfs4 -o nconnect=16,sec=sys,vers=4.2 server:/m /m");
  EXPECT_EQ(tasks_of(list, "rsize"), Tasks{"load-cold"});
  EXPECT_EQ(tasks_of(list, "wsize"), Tasks{});
  probe.mount->options = "rw,nconnect=4,rsize=1048576,wsize=1048576";
  EXPECT_EQ(advise_all(probe, "uring")[0].command, "sudo umount /m && sudo mount -t nfs4 -o nconnect=16 server:/m /m");
  // Who follows one advice must not lose the other.
  probe.mount->options = "rw,nconnect=16,rsize=65536,wsize=1048576";
  EXPECT_EQ(only(advise_all(probe, "uring")).command,
            "sudo umount /m && sudo mount -t nfs4 -o rsize=1048576,nconnect=16 server:/m /m");
  probe.mount->options = "rw,nconnect=16,rsize=1048576,wsize=1048576";
  EXPECT_THAT(advise_all(probe, "uring"), IsEmpty());
}

TEST(Advice, HugePagesThatTheKernelRefuses) {
  Probe probe = well_tuned();
  probe.huge_pages = "never";
  const auto list = advise_all(probe, "uring");
  EXPECT_EQ(tasks_of(list, "Permit huge pages"), (Tasks{"load-warm", "load-cold", "save"}));
  EXPECT_EQ(list[0].command, "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
  EXPECT_FALSE(list[0].trial);
  probe.huge_pages = "always";
  probe.huge_pages_defrag = "never";
  EXPECT_EQ(tasks_of(advise_all(probe, "uring"), "make room").size(), 3u);
}

TEST(Advice, HugePagesAreTriedWithoutRoot) {
  Probe probe = well_tuned();
  probe.huge_pages = "madvise";
  EXPECT_THAT(advise_all(probe, "uring", Pages::kSmall), IsEmpty());
  const auto list = advise_all(probe, "uring", Pages::kHuge);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_FALSE(list[0].needs_root);
  EXPECT_EQ(list[0].trial, (Trial{setting("uring", Pages::kSmall), setting("uring", Pages::kHuge)}));
  EXPECT_EQ(list[2].task, "save");
  EXPECT_EQ(list[2].trial, std::nullopt) << "the pages of a save are the caller's, so that a trial measures nothing";
}

TEST(Advice, DirectTransfersAreTriedWithoutRoot) {
  const auto list = advise_all(well_tuned(), "direct");
  EXPECT_EQ(tasks_of(list, "O_DIRECT"), (Tasks{"load-cold", "save"}));
  EXPECT_EQ(list[0].trial, (Trial{setting("pwrite"), setting("direct")}));
  EXPECT_EQ(list[0].command, std::nullopt);
  EXPECT_EQ(advise_all(well_tuned(), "uring-direct")[0].trial->without, setting("uring"));
  Probe probe = well_tuned();
  probe.takes_direct = false;
  EXPECT_THAT(advise_all(probe, "direct"), IsEmpty());
  std::vector<TaskAnswer> without_buffered = answers("direct");
  for (TaskAnswer& answer : without_buffered) answer.paths = {"direct"};
  EXPECT_THAT(advise(well_tuned(), without_buffered), IsEmpty());
}

TEST(Advice, WriteBackOfBufferedSaves) {
  Probe probe = well_tuned();
  probe.dirty.background_bytes = 0;
  probe.dirty.background_ratio = 10;
  const Advice advice = only(advise_all(probe, "uring"));
  EXPECT_EQ(advice.task, "save");
  EXPECT_EQ(advice.command, "sudo sysctl vm.dirty_background_bytes=67108864");
  EXPECT_THAT(advice.why, HasSubstr("when 819 MiB are dirty: 819 MiB of this save wait"));
  EXPECT_EQ(tasks_of(advise_all(probe, "direct"), "write back"), Tasks{});
  EXPECT_EQ(tasks_of(advise_all(probe, "pwrite"), "write back"), Tasks{}) << "which begins by itself";
  probe.is_memory = true;
  EXPECT_THAT(advise_all(probe, "uring"), IsEmpty());
}

TEST(Advice, IoUringThatIsDisabled) {
  Probe probe = well_tuned();
  probe.io_uring_disabled = 2;
  EXPECT_THAT(advise_all(probe, "uring"), IsEmpty());  // it works for this process
  std::vector<TaskAnswer> without = answers("pwrite");
  for (TaskAnswer& answer : without) answer.paths = {"pwrite", "direct"};
  const auto list = advise(probe, without);
  EXPECT_EQ(tasks_of(list, "io_uring"), (Tasks{"load-cold", "save"}));
  EXPECT_THAT(list[0].why, StartsWith("kernel.io_uring_disabled is 2"));
}

TEST(Advice, NodeOfTheDisk) {
  Probe probe = well_tuned();
  probe.numa_nodes = 2;
  probe.numa_node = 1;
  const auto list = advise_all(probe, "uring");
  EXPECT_EQ(tasks_of(list, "NUMA node 1"), (Tasks{"load-cold", "save"}));
  EXPECT_EQ(list[0].command, "numactl --cpunodebind=1 --preferred=1");
  EXPECT_FALSE(list[0].needs_root);
}

}  // namespace
}  // namespace tzmark::bench
