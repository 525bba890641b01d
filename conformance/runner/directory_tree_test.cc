// Tests of how directories are measured: links, depth, and what forbids it.
#include "runner/directory_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/scratch_directory.h"
#include "runner/scratch_file.h"
#include "runner/staged_file.h"
#include "testing/test_corpus.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kEnough = 1u << 30;

class DirectoryTree : public ::testing::Test {
 protected:
  DirectoryTree() {
    std::string name = fs::temp_directory_path() / "tzmark-test-XXXXXX";
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    top_ = name;
    directory_ = top_ / "directory";
    fs::create_directory(directory_);
  }
  ~DirectoryTree() override { fs::remove_all(top_); }
  DirectoryTree(const DirectoryTree&) = delete;
  DirectoryTree& operator=(const DirectoryTree&) = delete;
  DirectoryTree(DirectoryTree&&) = delete;
  DirectoryTree& operator=(DirectoryTree&&) = delete;

  static void write(const fs::path& file, std::size_t bytes) { std::ofstream(file) << std::string(bytes, 'x'); }

  // Directories in directories, beyond what a path can name.
  void nest(int depth) const {
    int at = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < depth; ++i) {
      ASSERT_EQ(::mkdirat(at, "d", 0700), 0);
      const int below = ::openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      ::close(at);
      at = below;
    }
    ::close(at);
  }

  fs::path top_;
  fs::path directory_;
};

TEST_F(DirectoryTree, CountsFilesAndDirectories) {
  EXPECT_EQ(disk_bytes_below(directory_, kEnough), 0u);
  EXPECT_EQ(disk_bytes_below(top_ / "absent", kEnough), 0u);
  fs::create_directory(directory_ / "a");
  write(directory_ / "a/small", 1);
  EXPECT_GE(disk_bytes_below(directory_, kEnough), 2u * 4096);
  write(directory_ / "a/large", 1u << 20);
  const std::uint64_t bytes = disk_bytes_below(directory_, kEnough);
  EXPECT_GE(bytes, 1u << 20);
  EXPECT_LT(bytes, 2u << 20);
}

TEST_F(DirectoryTree, DoesNotCountWhatLinksLeadTo) {
  fs::create_directory(top_ / "other");
  write(top_ / "other/large", 1u << 20);
  fs::create_symlink(top_ / "other", directory_ / "link");
  fs::create_symlink(top_ / "other/large", directory_ / "file");
  EXPECT_EQ(disk_bytes_below(directory_, kEnough), 2u * 4096);
  EXPECT_EQ(disk_bytes_below(directory_ / "link", kEnough), 0u);
}

TEST_F(DirectoryTree, CountsNoFurtherThanAsked) {
  for (int i = 0; i < 20; ++i) write(directory_ / std::to_string(i), 1);
  const std::uint64_t bytes = disk_bytes_below(directory_, 10 * 4096);
  EXPECT_GT(bytes, 10u * 4096);
  EXPECT_LT(bytes, 20u * 4096);
}

// Whether some of the file has no place on disk yet. Throws where the file system does not tell.
bool waits_for_its_place(const fs::path& path) {
  constexpr std::uint32_t kExtents = 64;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<std::uint64_t> room((sizeof(fiemap) + kExtents * sizeof(fiemap_extent)) / sizeof(std::uint64_t));
  auto* const map = reinterpret_cast<fiemap*>(room.data());
  map->fm_length = FIEMAP_MAX_OFFSET;
  map->fm_extent_count = kExtents;
  const int failed = ::ioctl(fd, FS_IOC_FIEMAP, map);
  ::close(fd);
  if (failed) throw std::runtime_error("FIEMAP");
  return std::any_of(map->fm_extents, map->fm_extents + map->fm_mapped_extents,
                     [](const fiemap_extent& extent) { return (extent.fe_flags & FIEMAP_EXTENT_DELALLOC) != 0; });
}

TEST_F(DirectoryTree, SettledFilesHaveTheirPlace) {
  const fs::path file = directory_ / "large";
  write(file, 4u << 20);
  fs::resize_file(file, 8u << 20);
  try {
    if (!waits_for_its_place(file)) GTEST_SKIP() << "this file system gives files their place at once";
  } catch (const std::runtime_error&) {
    GTEST_SKIP() << "this file system does not tell where files lie";
  }
  settle_files_below(directory_);
  EXPECT_FALSE(waits_for_its_place(file));
}

TEST_F(DirectoryTree, SettlesNothingThatLinksLeadTo) {
  ASSERT_EQ(::mkfifo((top_ / "fifo").c_str(), 0600), 0);
  fs::create_symlink(top_ / "fifo", directory_ / "link");
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  { std::ofstream sparse(directory_ / "sparse"); }
  fs::resize_file(directory_ / "sparse", std::uintmax_t{1} << 40);
  settle_files_below(directory_);
  EXPECT_LT(disk_bytes_below(directory_, kEnough), 1u << 20);
}

TEST_F(DirectoryTree, DepthIsLimited) {
  nest(static_cast<int>(kDirectoryDepthMax));
  EXPECT_EQ(disk_bytes_below(directory_, kEnough), kDirectoryDepthMax * 4096);
  fs::remove_all(directory_);
  fs::create_directory(directory_);
  nest(static_cast<int>(kDirectoryDepthMax) + 1);
  EXPECT_EQ(disk_bytes_below(directory_, kEnough), kTooDeep);
}

// Gives up the rights of root for a while.
class OrdinaryUser {
 public:
  static constexpr uid_t kNobody = 65534;
  OrdinaryUser() : root_(::geteuid() == 0) { became_ = !root_ || ::seteuid(kNobody) == 0; }
  ~OrdinaryUser() {
    if (root_ && ::seteuid(0) != 0) std::abort();
  }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;
  OrdinaryUser(OrdinaryUser&&) = delete;
  OrdinaryUser& operator=(OrdinaryUser&&) = delete;
  bool became() const { return became_; }

 private:
  bool root_;
  bool became_;
};

TEST_F(DirectoryTree, CountsWhatForbidsToBeListed) {
  for (const fs::path& path : {top_, directory_}) {
    if (::geteuid() != 0) continue;
    ASSERT_EQ(::chown(path.c_str(), OrdinaryUser::kNobody, OrdinaryUser::kNobody), 0);
  }
  const OrdinaryUser user;
  if (!user.became() || ::faccessat(AT_FDCWD, directory_.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    GTEST_SKIP() << "this user cannot work in the temporary directory as an ordinary one";
  }
  for (const char* const forbidden : {"directory", "directory/a"}) {
    for (const auto perms : {fs::perms::none, fs::perms::owner_read, fs::perms::owner_write | fs::perms::owner_exec}) {
      fs::create_directories(directory_ / "a");
      write(directory_ / "a/large", 1u << 20);
      fs::permissions(top_ / forbidden, perms);
      EXPECT_GE(disk_bytes_below(directory_, kEnough), 1u << 20) << forbidden;
      fs::remove_all(directory_);
    }
  }
}

// Adapters may change their working directory.
TEST(ScratchDirectory, HasAnAbsolutePath) {
  const TestCorpus place;
  const char* const before = std::getenv("TMPDIR");
  const std::string restored = before ? before : "";
  ::setenv("TMPDIR", fs::relative(place.directory()).c_str(), 1);
  {
    const ScratchDirectory directory;
    const ScratchFile file("content");
    EXPECT_TRUE(directory.path().is_absolute()) << directory.path();
    EXPECT_TRUE(file.path().is_absolute()) << file.path();
    EXPECT_TRUE(fs::equivalent(directory.path().parent_path(), place.directory()));
  }
  before ? ::setenv("TMPDIR", restored.c_str(), 1) : ::unsetenv("TMPDIR");
}

// The next file gets the directory, unless something is left there or it is not as it was.
TEST(StagedFile, IsAloneInItsDirectory) {
  const auto next_directory = [](const std::function<void(const fs::path&)>& change) {
    const StagedFile file({}, ".tensors");
    EXPECT_EQ(std::distance(fs::directory_iterator(file.directory()), {}), 1);
    change(file.directory());
    return file.directory();
  };
  const fs::path first = next_directory([](const fs::path&) {});
  EXPECT_EQ(next_directory([](const fs::path& directory) { std::ofstream(directory / "left") << "x"; }), first);
  EXPECT_FALSE(fs::exists(first));
  const fs::path second = next_directory([](const fs::path& directory) { fs::permissions(directory, fs::perms::all); });
  EXPECT_NE(second, first);
  EXPECT_FALSE(fs::exists(second));
  const fs::path third = next_directory([](const fs::path& directory) {
    fs::rename(directory, directory.string() + "-moved");
    fs::create_directory(directory);
  });
  EXPECT_NE(next_directory([](const fs::path&) {}), third);
  fs::remove_all(third);
  fs::remove_all(third.string() + "-moved");
}

TEST(StagedFile, HasTheNameAndTheInodeOfTheOneBefore) {
  const auto stage = [](const std::string& content, std::string_view suffix,
                        const std::function<void(const fs::path&)>& change) {
    const StagedFile file(std::as_bytes(std::span(content)), suffix);
    EXPECT_TRUE(holds(file.path(), std::as_bytes(std::span(content))));
    struct stat status {};
    EXPECT_EQ(::stat(file.path().c_str(), &status), 0);
    change(file.path());
    return std::pair(file.path(), status.st_ino);
  };
  const auto nothing = [](const fs::path&) {};
  const auto first = stage("a long one", ".tensors", nothing);
  EXPECT_EQ(stage("short", ".tensors", nothing), first);
  EXPECT_EQ(stage("", ".tensors", [](const fs::path& path) { fs::permissions(path, fs::perms::none); }), first);
  // What an adapter has put in its place is not written to.
  const TestCorpus other;
  const fs::path mine = other.directory() / "mine";
  write_file(mine, "mine");
  const auto linked = stage("x", ".tensors", [&](const fs::path& path) {
    fs::remove(path);
    fs::create_symlink(mine, path);
  });
  EXPECT_NE(linked.first, first.first);
  const auto hard = stage("y", ".tensors", [&](const fs::path& path) {
    fs::remove(path);
    fs::create_hard_link(mine, path);
  });
  EXPECT_NE(hard.first, linked.first);
  EXPECT_NE(stage("z", ".tensors", nothing).first, hard.first);
  EXPECT_TRUE(holds(mine, std::as_bytes(std::span(std::string_view("mine")))));
  EXPECT_TRUE(stage("z", ".safetensors", nothing).first.string().ends_with(".safetensors"));
}

TEST(ScratchDirectory, SurvivesAFullStderr) {
  const int before = ::dup(STDERR_FILENO);
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(before, 0);
  ASSERT_GE(full, 0);
  ::dup2(full, STDERR_FILENO);
  {
    const ScratchDirectory directory;
    fs::remove(directory.path());  // which the directory will tell
  }
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(full);
}

}  // namespace
}  // namespace tzmark::conformance
