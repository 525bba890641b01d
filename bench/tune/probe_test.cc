// Facts about storage, from trees of files like those of /proc and /sys, and of the directories of this machine.
#include "tune/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "harness/test_tmpfs.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// nvme0n1 with a partition, nvme1n1, md0 over both, and an LVM volume dm-0 over md0.
class ProbedTree : public testing::Test {
 protected:
  void add(const std::string& name, std::string_view text) {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    test::write_whole(path, std::as_bytes(std::span(text)));
  }
  void add_disk(const std::string& number, const std::string& name) { add_device(number, "pci0/" + name, name); }
  void add_device(const std::string& number, const std::string& directory, const std::string& name) {
    const fs::path device = root_ / "sys/devices" / directory;
    fs::create_directories(device / "slaves");
    add("sys/devices/" + directory + "/dev", number + "\n");
    for (const fs::path& link : {root_ / "sys/dev/block" / number, root_ / "sys/class/block" / name}) {
      fs::create_directories(link.parent_path());
      fs::create_directory_symlink(device, link);
    }
  }
  void below(const std::string& upper, const std::string& lower) {
    const fs::path device = fs::canonical(root_ / "sys/class/block" / lower);
    fs::create_directory_symlink(device, fs::canonical(root_ / "sys/class/block" / upper) / "slaves" / lower);
  }
  Probe probe(unsigned major_number, unsigned minor_number, const std::string& type = "ext4") const {
    Probe found;
    found.mount = Mount{type, "rw,relatime", "/dev/x", "/data"};
    add_system_facts(found, root_, ::makedev(major_number, minor_number));
    return found;
  }

  test::TestDirectory directory_;
  fs::path root_ = directory_.name();
};

TEST_F(ProbedTree, AbsentFactsAreNull) {
  const Probe found = probe(259, 0);
  EXPECT_THAT(found.disks, IsEmpty());
  EXPECT_THAT(found.raid, IsEmpty());
  EXPECT_FALSE(found.bdi || found.readahead_bytes || found.numa_node || found.numa_nodes || found.huge_pages);
  EXPECT_FALSE(found.memory_bytes || found.io_uring_disabled || found.dirty.ratio);
  const json document = to_json(found);
  for (const char* name : {"device", "scheduler", "readahead_bytes", "raid", "direct_align_bytes", "huge_pages",
                           "numa_node", "numa_nodes", "gpu"}) {
    EXPECT_EQ(document.at(name), nullptr) << name;
  }
}

TEST_F(ProbedTree, PartitionHasTheSettingsOfItsDisk) {
  add_disk("259:0", "nvme0n1");
  add_device("259:1", "pci0/nvme0n1/nvme0n1p1", "nvme0n1p1");
  add("sys/devices/pci0/nvme0n1/nvme0n1p1/partition", "1\n");
  add("sys/devices/pci0/nvme0n1/queue/scheduler", "none [mq-deadline] kyber\n");
  add("sys/devices/pci0/numa_node", "1\n");
  add("sys/class/bdi/259:0/read_ahead_kb", "128\n");
  add("sys/devices/system/node/node0/cpulist", "0\n");
  add("sys/devices/system/node/node1/cpulist", "1\n");
  const Probe found = probe(259, 1);
  EXPECT_THAT(found.disks, ElementsAre("nvme0n1"));
  EXPECT_EQ(found.disk["scheduler"], "mq-deadline");
  EXPECT_THAT(found.schedulers_offered, ElementsAre("none", "mq-deadline", "kyber"));
  EXPECT_EQ(found.bdi, "259:0");
  EXPECT_EQ(found.readahead_bytes, 128u << 10);
  EXPECT_EQ(found.numa_node, 1);
  EXPECT_EQ(found.numa_nodes, 2u);
  EXPECT_THAT(found.raid, IsEmpty());
  add("sys/devices/pci0/numa_node", "-1\n");
  EXPECT_EQ(probe(259, 1).numa_node, std::nullopt);
}

TEST_F(ProbedTree, LayersAreOutermostFirst) {
  add_disk("259:0", "nvme0n1");
  add_disk("259:4", "nvme1n1");
  add_device("9:0", "virtual/block/md0", "md0");
  add_device("253:0", "virtual/block/dm-0", "dm-0");
  add("sys/devices/virtual/block/md0/md/level", "raid0\n");
  add("sys/devices/virtual/block/md0/md/chunk_size", "524288\n");
  add("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-abc\n");
  below("md0", "nvme1n1");
  below("md0", "nvme0n1");
  below("dm-0", "md0");
  add("sys/class/bdi/253:0/read_ahead_kb", "4096\n");
  const Probe found = probe(253, 0);
  const RaidLayer volume{"dm-0", "lvm", {}, {"md0"}};
  const RaidLayer array{"md0", "raid0", 524'288, {"nvme0n1", "nvme1n1"}};
  EXPECT_THAT(found.raid, ElementsAre(volume, array));
  EXPECT_THAT(found.disks, ElementsAre("nvme0n1", "nvme1n1"));
  EXPECT_EQ(found.readahead_bytes, 4u << 20);  // of the volume, not of the disks
  EXPECT_EQ(to_json(found)["raid"], "dm-0 lvm of md0; md0 raid0 of nvme0n1 nvme1n1, 512 KiB chunks");
  EXPECT_EQ(to_json(found)["device"], "nvme0n1 nvme1n1");
}

TEST_F(ProbedTree, NetworkFileSystemsHaveTheirOwnReadahead) {
  add("sys/class/bdi/0:52/read_ahead_kb", "15380\n");
  const Probe found = probe(0, 52, "nfs4");
  EXPECT_TRUE(found.is_network);
  EXPECT_EQ(found.bdi, "0:52");
  EXPECT_EQ(found.readahead_bytes, 15'380u << 10);
  EXPECT_THAT(found.disks, IsEmpty());
}

TEST_F(ProbedTree, BtrfsHasItsOwnReadaheadIfItIsTheOnlyOne) {
  add_disk("259:0", "nvme0n1");
  add("sys/class/bdi/259:0/read_ahead_kb", "128\n");
  add("sys/class/bdi/btrfs-1/read_ahead_kb", "4096\n");
  EXPECT_EQ(probe(259, 0, "btrfs").bdi, "btrfs-1");
  add("sys/class/bdi/btrfs-2/read_ahead_kb", "4096\n");
  EXPECT_EQ(probe(259, 0, "btrfs").bdi, std::nullopt);
}

TEST_F(ProbedTree, MemoryIsThatOfTheCgroup) {
  add("proc/meminfo", "MemTotal:       8388608 kB\n");
  EXPECT_EQ(probe(8, 0).memory_bytes, std::uint64_t{8} << 30);
  add("proc/self/cgroup", "0::/a\n");
  add("sys/fs/cgroup/a/memory.max", "1073741824\n");
  EXPECT_EQ(probe(8, 0).memory_bytes, 1u << 30);
}

TEST_F(ProbedTree, SettingsOfTheKernel) {
  add("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  add("sys/kernel/mm/transparent_hugepage/defrag", "always defer [defer+madvise] madvise never\n");
  add("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n");
  add("proc/sys/kernel/io_uring_disabled", "2\n");
  add("proc/sys/vm/dirty_background_ratio", "10\n");
  add("proc/sys/vm/dirty_background_bytes", "0\n");
  add("proc/sys/vm/dirty_bytes", "4096\n");
  add("proc/sys/vm/dirty_ratio", "0\n");
  const Probe found = probe(8, 0);
  EXPECT_EQ(found.huge_pages, "madvise");
  EXPECT_EQ(found.huge_pages_defrag, "defer+madvise");
  EXPECT_EQ(found.huge_pages_shmem, "never");
  EXPECT_EQ(found.io_uring_disabled, 2u);
  EXPECT_EQ(found.dirty.background_limit_bytes(1000), 100u);
  EXPECT_EQ(found.dirty.background_limit_bytes({}), std::nullopt);
  EXPECT_EQ(found.dirty.limit_bytes({}), 4096u);
}

TEST(Probe, KnowsFileSystemsOfOtherMachines) {
  for (const char* type : {"nfs", "nfs4", "lustre", "cifs", "smb3", "ceph", "gpfs", "fuse", "fuse.sshfs", "virtiofs"}) {
    EXPECT_TRUE(is_network_file_system(type)) << type;
  }
  for (const char* type : {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuseblk", "fuse.mergerfs", "zfs", ""}) {
    EXPECT_FALSE(is_network_file_system(type)) << type;
  }
}

std::string refusal_of(const std::string& directory) {
  try {
    probe_storage(directory);
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::kEnvironment);
    return error.what();
  }
  return "probed";
}

TEST(Probe, OfADirectoryLeavesNothing) {
  const test::TestDirectory directory;
  const Probe found = probe_storage(directory.name());
  EXPECT_EQ(found.directory, fs::canonical(directory.name()));
  EXPECT_GT(found.free_bytes.value_or(0), 0u);
  EXPECT_FALSE(found.gpudirect.empty());
  EXPECT_TRUE(fs::is_empty(directory.name()));
  EXPECT_EQ(to_json(found)["free_bytes"], found.free_bytes.value_or(0));
}

TEST(Probe, SaysWhyADirectoryCannotBeTuned) {
  const test::TestDirectory directory;
  EXPECT_THAT(refusal_of(directory / "absent"), HasSubstr("No such file"));
  test::write_whole(directory / "file", {});
  EXPECT_THAT(refusal_of(directory / "file"), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal_of("/proc/self"),
              AnyOf(HasSubstr("cannot create a file"), HasSubstr("no permission to create files")));
}

TEST(Probe, SaysThatADirectoryIsReadOnly) {
  const test::TestDirectory directory;
  fs::permissions(directory.name(), fs::perms::owner_read | fs::perms::owner_exec);
  if (::access(directory.name().c_str(), W_OK) == 0) GTEST_SKIP() << "this user may write anywhere";
  EXPECT_THAT(refusal_of(directory.name()), HasSubstr("no permission to create files"));
}

// In a namespace of its own, so that the mount is gone with the child.
int probe_mounted(const std::string& directory, unsigned long flags, const char* options, const std::string& wanted) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_mounted = ::unshare(CLONE_NEWNS) == 0 &&
                            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") == 0 &&
                            ::mount("none", directory.c_str(), "tmpfs", flags, options) == 0;
    if (!is_mounted) ::_exit(2);
    const std::string why = refusal_of(directory);
    std::cerr << why << "\n";
    ::_exit(why.find(wanted) != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Probe, SaysThatAFileSystemIsReadOnlyOrFull) {
  const test::TestDirectory directory;
  const int read_only = probe_mounted(directory.name(), MS_RDONLY, "", "mounted read-only");
  if (read_only == 2) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(read_only, 0);
  // One inode is that of the root.
  EXPECT_EQ(probe_mounted(directory.name(), 0, "nr_inodes=1", "the file system is full"), 0);
}

TEST(Probe, TmpfsIsMemory) {
  const std::string tmpfs = "/dev/shm";
  if (!test::is_tmpfs(tmpfs)) GTEST_SKIP() << "no tmpfs at " << tmpfs;
  const test::TestDirectory directory(tmpfs);
  const Probe found = probe_storage(directory.name());
  EXPECT_TRUE(found.is_memory);
  EXPECT_FALSE(found.takes_direct);
  EXPECT_THAT(found.disks, IsEmpty());
  EXPECT_THAT(found.warnings, ElementsAre(HasSubstr("tmpfs, which keeps files in memory")));
}

TEST(Probe, RoomIsRequired) {
  Probe probe;
  probe.directory = "/data";
  probe.free_bytes = 5 << 20;
  EXPECT_NO_THROW(require_room(probe, 5 << 20));
  try {
    require_room(probe, (5 << 20) + 1);
    FAIL() << "it has no room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kWriteFailed);
    EXPECT_THAT(error.what(), HasSubstr("/data: the file system is too full: 5 MiB are free, the test files need 6"));
  }
}

TEST(Probe, UnknownRoomIsNotFull) {
  const Probe probe;
  EXPECT_NO_THROW(require_room(probe, std::uint64_t{1} << 40));
  EXPECT_EQ(to_json(probe)["free_bytes"], nullptr);
}

}  // namespace
}  // namespace tzmark::bench
