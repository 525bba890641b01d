// Files that are changed in place: the lock, sizes, room in the middle, and whose they are.
#include "os/in_place_file.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <functional>

#include "os/attributes.h"
#include "testing/caught.h"
#include "testing/files/test_directory.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;
using test::random_bytes;
using test::read_whole;
using test::write_whole;
using ::testing::ElementsAre;

// Of every file system that is likely to be met.
constexpr std::size_t kBlockBytes = 4096;

constexpr unsigned kNobody = 65534;

class InPlaceFileTest : public ::testing::Test {
 protected:
  void SetUp() override { write_whole(name_, content_); }

  Bytes with_room(std::size_t offset, std::size_t bytes) const {
    Bytes expected = content_;
    expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(offset), bytes, std::byte{0});
    return expected;
  }
  // What the action returns in a process of its own, or 99 if that does not end by itself.
  static int in_child(const std::function<int()>& action) {
    const pid_t child = ::fork();
    if (child == 0) {
      int result = 98;
      EXPECT_EQ(caught([&] { result = action(); }), test::Caught{});
      ::_exit(result);
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 99;
  }
  // As another user, who is not in its group, makes a new file "other" like the file.
  void give_all_but_the_group() {
    ASSERT_EQ(::chown(name_.c_str(), kNobody, 34), 0);
    write_whole(directory_ / "other", content_);
    ASSERT_EQ(::chown((directory_ / "other").c_str(), kNobody, kNobody), 0);
    const InPlaceFile locked(name_), other(directory_ / "other");
    EXPECT_EQ(in_child([&] {
                if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return 2;
                return locked.give_attributes_to(other.get()) ? 1 : 0;
              }),
              0);
  }
  mode_t mode_of(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(::stat(name.c_str(), &status), 0);
    return status.st_mode & 07777;
  }

  const test::TestDirectory directory_;
  const std::string name_ = directory_ / "file";
  const Bytes content_ = random_bytes(5 * kBlockBytes + 100, 1);
};

TEST_F(InPlaceFileTest, IsLockedWhileTheObjectLives) {
  {
    const InPlaceFile first(name_);
    EXPECT_EQ(caught([&] { const InPlaceFile second(name_); }), failure(ErrorCode::kFileLocked));
    // By any name.
    std::filesystem::create_symlink("file", directory_ / "link");
    EXPECT_EQ(caught([&] { const InPlaceFile second(directory_ / "link"); }), failure(ErrorCode::kFileLocked));
    // Others may read and even write: the lock binds who asks for it.
    EXPECT_EQ(read_whole(name_), content_);
  }
  EXPECT_EQ(caught([&] { const InPlaceFile again(name_); }), test::Caught{});
}

TEST_F(InPlaceFileTest, TheLockMovesWithTheObject) {
  InPlaceFile first(name_);
  write_whole(directory_ / "other", content_);
  InPlaceFile other(directory_ / "other");
  first = std::move(other);
  EXPECT_EQ(caught([&] { const InPlaceFile second(directory_ / "other"); }), failure(ErrorCode::kFileLocked));
}

TEST_F(InPlaceFileTest, RespectsTheLocksOfOthers) {
  const int descriptor = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(::flock(descriptor, LOCK_SH), 0);
  EXPECT_EQ(caught([&] { const InPlaceFile file(name_); }), failure(ErrorCode::kFileLocked));
  ASSERT_EQ(::flock(descriptor, LOCK_UN), 0);
  EXPECT_EQ(caught([&] { const InPlaceFile file(name_); }), test::Caught{});
  ::close(descriptor);
}

TEST_F(InPlaceFileTest, NeedsAFileThatIsThere) {
  EXPECT_EQ(caught([&] { const InPlaceFile file(directory_ / "none"); }), failure(ErrorCode::kOpenFailed));
  EXPECT_EQ(caught([&] { const InPlaceFile file(directory_.name()); }), failure(ErrorCode::kOpenFailed));
  EXPECT_THAT(directory_.entries(), ElementsAre("file"));
}

TEST_F(InPlaceFileTest, ChangesItsSize) {
  InPlaceFile file(name_);
  EXPECT_EQ(file.size(), content_.size());
  Bytes expected = content_;
  for (const std::size_t size : {content_.size() + 1000, std::size_t{10}, std::size_t{0}, std::size_t{5000}}) {
    file.resize(size);
    expected.resize(size);
    EXPECT_EQ(file.size(), size);
    EXPECT_EQ(read_whole(name_), expected);
  }
  const test::FileSizeLimit limit(6000);
  EXPECT_EQ(caught([&] { file.resize(6001); }), failure(ErrorCode::kWriteFailed, 6001));
  EXPECT_EQ(read_whole(name_), expected);
}

TEST_F(InPlaceFileTest, MakesRoomBetweenBlocks) {
  for (const std::size_t offset : {std::size_t{0}, kBlockBytes, 4 * kBlockBytes, 5 * kBlockBytes}) {
    for (const std::size_t bytes : {kBlockBytes, 3 * kBlockBytes}) {
      write_whole(name_, content_);
      InPlaceFile file(name_);
      if (!file.insert(offset, bytes)) {
        EXPECT_EQ(read_whole(name_), content_) << "it could not, and has changed nothing";
        GTEST_SKIP() << "this file system cannot insert ranges";
      }
      EXPECT_EQ(file.size(), content_.size() + bytes);
      EXPECT_EQ(read_whole(name_), with_room(offset, bytes)) << bytes << " bytes at " << offset;
    }
  }
}

TEST_F(InPlaceFileTest, MakesNoRoomInsideBlocks) {
  InPlaceFile file(name_);
  EXPECT_FALSE(file.insert(kBlockBytes + 256, kBlockBytes));
  EXPECT_FALSE(file.insert(kBlockBytes, 256));
  EXPECT_EQ(read_whole(name_), content_);
}

TEST_F(InPlaceFileTest, BehindTheEndThereIsRoom) {
  {
    InPlaceFile file(name_);
    EXPECT_TRUE(file.insert(content_.size(), 300));
    EXPECT_EQ(read_whole(name_), with_room(content_.size(), 300));
  }
  write_whole(name_, content_);
  InPlaceFile file(name_);
  EXPECT_TRUE(file.insert(content_.size() + 100, 300));
  EXPECT_EQ(read_whole(name_), with_room(content_.size(), 400));
}

TEST_F(InPlaceFileTest, NoRoomOnAFullDisk) {
  InPlaceFile file(name_);
  const test::FileSizeLimit limit(content_.size() + 10);
  EXPECT_EQ(caught([&] { file.insert(content_.size(), 300); }),
            failure(ErrorCode::kWriteFailed, content_.size() + 300));
  EXPECT_EQ(read_whole(name_), content_);
}

TEST_F(InPlaceFileTest, TakesThePermissionsOfAnother) {
  write_whole(directory_ / "other", content_);
  for (const mode_t mode : {0600, 0644, 0640, 0755}) {
    ASSERT_EQ(::chmod(name_.c_str(), mode), 0);
    const InPlaceFile other(directory_ / "other");
    EXPECT_TRUE(InPlaceFile(name_).give_attributes_to(other.get()));
    EXPECT_EQ(mode_of(directory_ / "other"), mode);
    EXPECT_TRUE(InPlaceFile(name_).give_attributes_to(other.get(), 0705));
    EXPECT_EQ(mode_of(directory_ / "other"), mode & 0705);
  }
}

TEST_F(InPlaceFileTest, TakesTheOwnerOfAnotherIfItMay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  ASSERT_EQ(::chown(name_.c_str(), 12, 34), 0);
  ASSERT_EQ(::chmod(name_.c_str(), 02750), 0);
  write_whole(directory_ / "other", content_);
  EXPECT_TRUE(InPlaceFile(name_).give_attributes_to(InPlaceFile(directory_ / "other").get()));
  struct stat status {};
  ASSERT_EQ(::stat((directory_ / "other").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 12U);
  EXPECT_EQ(status.st_gid, 34U);
  EXPECT_EQ(status.st_mode & 07777U, 02750U) << "a change of the owner clears bits, and comes first";
}

// An access control list as the kernel spells it: of the owner, a user, the group, the mask and everybody else.
Bytes access_list(unsigned owner, unsigned user_1234, unsigned group, unsigned mask, unsigned others) {
  const struct {
    posix_acl_xattr_header header;
    posix_acl_xattr_entry entries[5];
  } list{{POSIX_ACL_XATTR_VERSION},
         {{ACL_USER_OBJ, static_cast<__le16>(owner), static_cast<__le32>(ACL_UNDEFINED_ID)},
          {ACL_USER, static_cast<__le16>(user_1234), 1234},
          {ACL_GROUP_OBJ, static_cast<__le16>(group), static_cast<__le32>(ACL_UNDEFINED_ID)},
          {ACL_MASK, static_cast<__le16>(mask), static_cast<__le32>(ACL_UNDEFINED_ID)},
          {ACL_OTHER, static_cast<__le16>(others), static_cast<__le32>(ACL_UNDEFINED_ID)}}};
  const auto bytes = std::as_bytes(std::span(&list, 1));
  return {bytes.begin(), bytes.end()};
}

class AccessListTest : public InPlaceFileTest {
 protected:
  static constexpr const char* kAccess = "system.posix_acl_access";

  // Returns false if this file system has no such lists.
  static bool set(const std::string& name, const char* kind, const Bytes& list) {
    if (::setxattr(name.c_str(), kind, list.data(), list.size(), 0) == 0) return true;
    EXPECT_EQ(errno, EOPNOTSUPP);
    return false;
  }
  static Bytes get(const std::string& name) {
    Bytes list(1000);
    const ssize_t bytes = ::getxattr(name.c_str(), kAccess, list.data(), list.size());
    list.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    return list;
  }
};

TEST_F(AccessListTest, IsThatOfTheOther) {
  const Bytes list = access_list(6, 4, 0, 4, 0);
  if (!set(name_, kAccess, list)) GTEST_SKIP() << "no access control lists here";
  EXPECT_EQ(mode_of(name_), 0640U) << "the group's bits are the mask, and the group itself has nothing";
  write_whole(directory_ / "other", content_);
  const InPlaceFile locked(name_), other(directory_ / "other");
  EXPECT_TRUE(has_acl(locked.get()));
  EXPECT_FALSE(has_acl(other.get()));
  EXPECT_TRUE(locked.give_attributes_to(other.get()));
  EXPECT_EQ(get(directory_ / "other"), list);
  EXPECT_EQ(mode_of(directory_ / "other"), 0640U);
  // What an undo journal gets: to be read by those who read the file, and written by its owner.
  ASSERT_TRUE(set(name_, kAccess, access_list(7, 7, 2, 6, 6)));
  EXPECT_TRUE(locked.give_attributes_to(other.get(), 0755));
  EXPECT_EQ(get(directory_ / "other"), access_list(7, 5, 0, 4, 4));
}

TEST_F(AccessListTest, IsNotThatOfTheDirectory) {
  if (!set(directory_.name(), "system.posix_acl_default", access_list(7, 6, 6, 6, 4))) {
    GTEST_SKIP() << "no access control lists here";
  }
  ASSERT_EQ(::chmod(name_.c_str(), 0640), 0);
  const InPlaceFile locked(name_);
  const InPlaceFile created = InPlaceFile::create_beside(locked, "created");
  EXPECT_TRUE(has_acl(created.get()));
  EXPECT_TRUE(locked.give_attributes_to(created.get()));
  EXPECT_FALSE(has_acl(created.get()));
  EXPECT_EQ(mode_of(directory_ / "created"), 0640U);
}

TEST_F(AccessListTest, AnotherGroupGetsNoMoreThanEverybody) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may act as another user";
  // Everybody else gets no more than the group that was lost, which is everybody else now.
  if (!set(name_, kAccess, access_list(6, 6, 6, 6, 4))) GTEST_SKIP() << "no access control lists here";
  give_all_but_the_group();
  EXPECT_EQ(get(directory_ / "other"), access_list(6, 6, 4, 6, 4));
}

// A process that may give files away, and not change those of others.
TEST_F(AccessListTest, IsGivenBeforeTheOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  ASSERT_EQ(::chown(name_.c_str(), 12, 34), 0);
  ASSERT_EQ(::chmod(name_.c_str(), 0640), 0);
  const Bytes list = access_list(6, 4, 0, 4, 0);
  const bool has_lists = set(name_, kAccess, list);
  const InPlaceFile locked(name_);
  const InPlaceFile created = InPlaceFile::create_beside(locked, "created");
  EXPECT_EQ(in_child([&] {
              __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
              __user_cap_data_struct data[2] = {};
              if (::syscall(SYS_capget, &header, data) != 0) return 2;
              data[0].effective &= ~(1U << CAP_FOWNER);
              if (::syscall(SYS_capset, &header, data) != 0) return 3;
              return locked.give_attributes_to(created.get()) ? 0 : 1;
            }),
            0);
  struct stat status {};
  ASSERT_EQ(::fstat(created.get(), &status), 0);
  EXPECT_EQ(status.st_uid, 12U);
  EXPECT_EQ(status.st_gid, 34U);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
  if (has_lists) {
    EXPECT_EQ(get(directory_ / "created"), list);
  }
}

// As on file systems that give all files one mode.
TEST_F(InPlaceFileTest, AFixedModeMayBeAsWideAsTheOther) {
  ASSERT_EQ(::chmod(name_.c_str(), 0777), 0);
  write_whole(directory_ / "fixed", content_);
  ASSERT_EQ(::chmod((directory_ / "fixed").c_str(), 0777), 0);
  const InPlaceFile locked(name_), fixed(directory_ / "fixed");
  int flags = 0;
  if (::ioctl(fixed.get(), FS_IOC_GETFLAGS, &flags) != 0) GTEST_SKIP() << "no flags of files here";
  const auto set_flags = [&](int now) { return ::ioctl(fixed.get(), FS_IOC_SETFLAGS, &now) == 0; };
  if (!set_flags(flags | FS_IMMUTABLE_FL)) GTEST_SKIP() << "this user or file system makes no file immutable";
  EXPECT_EQ(caught([&] { EXPECT_TRUE(locked.give_attributes_to(fixed.get(), 0755)); }), test::Caught{});
  EXPECT_EQ(::chmod(name_.c_str(), 0775), 0);
  EXPECT_EQ(caught([&] { locked.give_attributes_to(fixed.get(), 0755); }), failure(ErrorCode::kWriteFailed));
  EXPECT_TRUE(set_flags(flags));
}

// In a user namespace that has no number for the owner: fchown fails with EINVAL there.
TEST_F(InPlaceFileTest, KeepsItsOwnerWhereTheOtherIsNotMapped) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  ASSERT_EQ(::chown(name_.c_str(), 12, 34), 0);
  ASSERT_EQ(::chmod(name_.c_str(), 06766), 0);
  write_whole(directory_ / "other", content_);
  const InPlaceFile locked(name_), other(directory_ / "other");
  constexpr int kNoNamespace = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWUSER) != 0) ::_exit(kNoNamespace);
    std::ofstream("/proc/self/uid_map") << "0 0 1";
    std::ofstream("/proc/self/gid_map") << "0 0 1";
    ::_exit(caught([&] { ::_exit(locked.give_attributes_to(other.get()) ? 1 : 0); }) == test::Caught{} ? 2 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespace) GTEST_SKIP() << "this machine gives no user namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  struct stat kept {};
  ASSERT_EQ(::stat((directory_ / "other").c_str(), &kept), 0);
  EXPECT_EQ(kept.st_uid, 0U);
  EXPECT_EQ(kept.st_gid, 0U);
  EXPECT_EQ(kept.st_mode & 07777U, 0766U) << "it is no program of root's";
}

TEST_F(InPlaceFileTest, AGroupThatIsLostGetsNoMoreThanItHad) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may act as another user";
  ASSERT_EQ(::chmod(name_.c_str(), 0604), 0);
  give_all_but_the_group();
  EXPECT_EQ(mode_of(directory_ / "other"), 0600U);
}

TEST_F(InPlaceFileTest, AnotherGroupGetsNoMoreThanEverybody) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may act as another user";
  // Of a group that the caller is not in.
  ASSERT_EQ(::chmod(name_.c_str(), 0664), 0);
  give_all_but_the_group();
  EXPECT_EQ(mode_of(directory_ / "other"), 0644U);
}

TEST_F(InPlaceFileTest, OpensTheLockedFileAndNoOther) {
  const InPlaceFile locked(name_);
  EXPECT_EQ(test::Bytes(content_), [&] {
    Bytes bytes(content_.size());
    locked.open()->read_at(0, std::span(bytes));
    return bytes;
  }());
  write_whole(directory_ / "other", content_);
  std::filesystem::rename(directory_ / "other", name_);
  EXPECT_FALSE(locked.is_named());
  EXPECT_EQ(caught([&] { locked.open(); }), failure(ErrorCode::kFileLocked));
  std::filesystem::remove(name_);
  std::filesystem::create_symlink("elsewhere", name_);
  EXPECT_EQ(caught([&] { locked.open(); }), failure(ErrorCode::kOpenFailed));
}

TEST_F(InPlaceFileTest, ReplacesOnlyWhatItWasMadeFor) {
  const InPlaceFile first(name_);
  InPlaceFile next = InPlaceFile::create_beside(first, "next");
  EXPECT_EQ(mode_of(directory_ / "next"), 0600U);
  EXPECT_EQ(caught([&] { InPlaceFile::create_beside(first, "next"); }), failure(ErrorCode::kOpenFailed));
  std::filesystem::rename(name_, directory_ / "moved");
  write_whole(name_, content_);
  EXPECT_EQ(caught([&] { next.replace(first); }), failure(ErrorCode::kFileLocked));
  EXPECT_EQ(read_whole(name_), content_);
  std::filesystem::rename(directory_ / "moved", name_);
  next.replace(first);
  EXPECT_TRUE(next.is_named());
  EXPECT_EQ(next.name(), "file");
  EXPECT_THAT(directory_.entries(), ElementsAre("file"));
}

TEST_F(InPlaceFileTest, IsARegularFile) {
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(caught([&] { const InPlaceFile file(directory_ / "fifo"); }), failure(ErrorCode::kOpenFailed));
}

// fs.protected_symlinks, where it is set, says the same to the kernel alone.
TEST_F(InPlaceFileTest, FollowsNoLinkThatAnotherUserPutIntoADirectoryOpenToAll) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give links away";
  const std::string open_to_all = directory_ / "shared", link = open_to_all + "/link";
  std::filesystem::create_directory(open_to_all);
  ASSERT_EQ(::chmod(open_to_all.c_str(), 01777), 0);
  std::filesystem::create_symlink(name_, link);
  EXPECT_EQ(resolved_file_name(link, LinksOfOthers::kRefuse), name_);
  ASSERT_EQ(::lchown(link.c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(caught([&] { InPlaceFile{link}; }), failure(ErrorCode::kOpenFailed));
  // One to its directory leads there as well.
  std::filesystem::create_symlink(directory_.name(), open_to_all + "/directory");
  ASSERT_EQ(::lchown((open_to_all + "/directory").c_str(), kNobody, kNobody), 0);
  const std::string below = open_to_all + "/directory/" + std::filesystem::path(name_).filename().string();
  EXPECT_EQ(caught([&] { InPlaceFile{below}; }), failure(ErrorCode::kOpenFailed));
  ASSERT_EQ(::chown(open_to_all.c_str(), kNobody, kNobody), 0);
  for (const std::string& followed : {link, below}) {
    EXPECT_EQ(resolved_file_name(followed, LinksOfOthers::kRefuse), name_);
  }
}

TEST_F(InPlaceFileTest, FollowsChainsOfLinks) {
  std::filesystem::create_directory(directory_ / "d");
  std::filesystem::create_symlink("../second", directory_ / "d/first");
  std::filesystem::create_symlink("./" + std::filesystem::path(name_).filename().string(), directory_ / "second");
  std::filesystem::create_symlink("d", directory_ / "e");
  EXPECT_EQ(resolved_file_name(directory_ / "e/../e/first"), std::filesystem::canonical(name_));
  std::filesystem::create_symlink("loop", directory_ / "loop");
  for (const std::string& same : {directory_ / "loop", directory_ / "missing", directory_ / "d/", std::string()}) {
    EXPECT_EQ(resolved_file_name(same), same);
  }
}

}  // namespace
}  // namespace tzmark
