// Files of an open directory, and files that are open already: neither is looked for by a name a second time.
#include "os/directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "testing/caught.h"
#include "testing/files/path_test.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;
using test::random_bytes;
using test::read_whole;
using test::write_whole;
using ::testing::ElementsAre;
namespace fs = std::filesystem;

class DirectoryTest : public ::testing::Test {
 protected:
  const test::TestDirectory around_;
  const Bytes content_ = random_bytes(1000, 1);
};

TEST_F(DirectoryTest, KeepsItsFilesWhateverItsNameLeadsTo) {
  fs::create_directory(around_ / "one");
  fs::create_directory(around_ / "two");
  write_whole(around_ / "two/file", content_);
  const Directory directory = Directory::of(around_ / "one/file");
  fs::rename(around_ / "one", around_ / "moved");
  fs::create_directory_symlink("two", around_ / "one");
  EXPECT_FALSE(directory.has("file"));
  EXPECT_FALSE(directory.remove_file("file"));
  const Descriptor created = directory.create("file", 0600);
  ASSERT_GE(created.get(), 0);
  EXPECT_TRUE(directory.is_name_of("file", created.get()));
  directory.rename("file", "other");
  EXPECT_FALSE(directory.is_name_of("file", created.get()));
  EXPECT_TRUE(directory.is_name_of("other", created.get()));
  EXPECT_TRUE(directory.sync());
  EXPECT_TRUE(fs::exists(around_ / "moved/other"));
  EXPECT_TRUE(directory.remove_file("other"));
  EXPECT_FALSE(directory.has("other"));
  EXPECT_EQ(read_whole(around_ / "two/file"), content_);
}

TEST_F(DirectoryTest, FollowsNoLinkAndWaitsForNoFifo) {
  const Directory directory(around_.name());
  write_whole(around_ / "file", content_);
  fs::create_symlink("file", around_ / "link");
  fs::create_symlink("nowhere", around_ / "dangling");
  ASSERT_EQ(::mkfifo((around_ / "fifo").c_str(), 0600), 0);
  EXPECT_LT(directory.open_file("link", O_RDONLY).get(), 0);
  EXPECT_EQ(errno, ELOOP);
  EXPECT_EQ(caught([&] { directory.create("dangling", 0600); }), failure(ErrorCode::kOpenFailed));
  EXPECT_TRUE(directory.has("dangling"));
  EXPECT_GE(directory.open_file("fifo", O_RDONLY).get(), 0);
  const Descriptor file = directory.open_file("file", O_RDONLY);
  EXPECT_FALSE(directory.is_name_of("link", file.get()));
  EXPECT_TRUE(directory.remove_file("link"));
  EXPECT_EQ(read_whole(around_ / "file"), content_);
}

TEST_F(DirectoryTest, IsThereOrAnError) {
  EXPECT_EQ(caught([&] { Directory(around_ / "none"); }), failure(ErrorCode::kOpenFailed));
  write_whole(around_ / "file", content_);
  EXPECT_EQ(caught([&] { Directory(around_ / "file"); }), failure(ErrorCode::kOpenFailed));
  EXPECT_EQ(caught([] { EXPECT_TRUE(Directory::of("name without a directory").sync()); }), test::Caught{});
  EXPECT_FALSE(Directory(around_.name()).has(std::string(1000, 'n')));
  EXPECT_EQ(caught([&] { Directory(around_.name()).rename("none", "other"); }), failure(ErrorCode::kWriteFailed));
  EXPECT_EQ(name_in_directory(around_ / "file"), "file");
}

using DescriptorPathTest = test::PathTest;

// Every path moves the bytes of the descriptor, whatever has its name by then.
TEST_P(DescriptorPathTest, MovesTheBytesOfTheDescriptor) {
  const std::string name = new_name();
  const Bytes content = random_bytes(10'000, 2), other = random_bytes(20'000, 3);
  write_whole(name, content);
  const Directory directory = Directory::of(name);
  Descriptor descriptor = directory.open_file(name_in_directory(name), O_RDWR);
  ASSERT_GE(descriptor.get(), 0);
  fs::rename(name, name + "-moved");
  write_whole(name, other);
  {
    const auto file = open_file(std::move(descriptor), name, OpenMode::kModify, GetParam());
    EXPECT_EQ(file->io_path(), GetParam());
    EXPECT_EQ(test::read(*file, 0, content.size()), content);
    file->write_at(5'000, std::span(other).first(4'096));
    file->sync();
  }
  Bytes expected = content;
  std::copy_n(other.begin(), 4'096, expected.begin() + 5'000);
  EXPECT_EQ(read_whole(name + "-moved"), expected);
  EXPECT_EQ(read_whole(name), other);
}

// Whether one of this process's descriptors of the file has O_NONBLOCK.
bool refuses_to_wait(const std::string& name) {
  struct stat wanted {};
  EXPECT_EQ(::stat(name.c_str(), &wanted), 0);
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    struct stat status {};
    if (::fstat(fd, &status) != 0 || status.st_dev != wanted.st_dev || status.st_ino != wanted.st_ino) continue;
    if ((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0) return true;
  }
  return false;
}

TEST_P(DescriptorPathTest, WaitsForTheDisk) {
  const std::string name = new_name();
  write_whole(name, random_bytes(10'000, 2));
  Descriptor descriptor = Directory::of(name).open_file(name_in_directory(name), O_RDWR);
  EXPECT_TRUE(refuses_to_wait(name));
  const auto from_descriptor = open_file(std::move(descriptor), name, OpenMode::kModify, GetParam());
  const auto from_name = open_file(name, OpenMode::kModify, GetParam());
  EXPECT_FALSE(refuses_to_wait(name));
}

INSTANTIATE_TEST_SUITE_P(Paths, DescriptorPathTest, ::testing::ValuesIn(test::disk_paths()), test::test_name);

TEST(DescriptorTest, IsOpenedAgainByNoOtherName) {
  const test::TestDirectory directory;
  write_whole(directory / "file", random_bytes(10, 1));
  const Descriptor first = open_descriptor(directory / "file", OpenMode::kRead);
  const Descriptor again = open_again(first.get(), directory / "file", O_RDWR);
  ASSERT_GE(again.get(), 0);
  EXPECT_TRUE(is_same_file(first.get(), again.get()));
  write_whole(directory / "other", random_bytes(10, 2));
  EXPECT_FALSE(is_same_file(first.get(), open_descriptor(directory / "other", OpenMode::kRead).get()));
}

}  // namespace
}  // namespace tzmark
