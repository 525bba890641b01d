// Tests of locks of files: a forked child holds none of them, and disturbs none.
#include "os/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "os/directory.h"
#include "testing/files/path_test.h"

namespace tzmark {
namespace {

// A forked child that has run an action and lives until this object is destroyed.
class LivingChild {
 public:
  // action: returns a number from 0 to 255.
  explicit LivingChild(const std::function<int()>& action) {
    std::array<int, 2> result{};
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0 || ::pipe2(result.data(), O_CLOEXEC) != 0) throw std::bad_alloc();
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto answer = static_cast<unsigned char>(action());
      ::close(ends_[1]);
      char none = 0;
      const bool has_ended = ::write(result[1], &answer, 1) == 1 && ::read(ends_[0], &none, 1) == 0;
      ::_exit(has_ended ? 0 : 1);
    }
    unsigned char answer = 0;
    ::close(result[1]);
    if (::read(result[0], &answer, 1) == 1) result_ = answer;
    ::close(result[0]);
  }
  ~LivingChild() {
    for (const int end : ends_) ::close(end);
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }
  LivingChild(const LivingChild&) = delete;
  LivingChild& operator=(const LivingChild&) = delete;

  std::optional<int> result() const { return result_; }

 private:
  std::array<int, 2> ends_{};
  pid_t pid_ = -1;
  std::optional<int> result_;
};

class FileLocks : public ::testing::Test {
 protected:
  FileLocks() { test::write_whole(directory_ / "file", {}); }

  Descriptor open() const { return Directory(directory_.name()).open_file("file", O_RDWR); }
  bool is_locked() const { return !try_lock(open().get(), Lock::kAlone); }

  const test::TestDirectory directory_;
};

TEST_F(FileLocks, EndWithTheirObjectAlthoughTheFileStaysOpen) {
  const Descriptor file = open(), other = open();
  {
    FileLock lock(file.get(), Lock::kAlone);
    EXPECT_TRUE(lock.is_held());
    EXPECT_TRUE(is_locked());
    EXPECT_FALSE(FileLock(other.get(), Lock::kShared).is_held());
    EXPECT_EQ(errno, EWOULDBLOCK);
    const FileLock moved = std::move(lock);
    EXPECT_TRUE(is_locked());
  }
  EXPECT_FALSE(is_locked());
  EXPECT_TRUE(FileLock(other.get(), Lock::kShared).is_held());
}

TEST_F(FileLocks, AreNotThoseOfAForkedChild) {
  std::optional<Descriptor> file(open());
  std::optional<FileLock> lock(std::in_place, file->get(), Lock::kAlone);
  // A child of the child knows no more of them. Nor does the child release what its parent holds.
  const LivingChild child([&] {
    const LivingChild grandchild([&] {
      lock.reset();
      return 1;
    });
    struct stat status {};
    const bool is_other = ::fstat(file->get(), &status) == 0 && !S_ISREG(status.st_mode);
    lock.reset();
    // What the child opens has other numbers, as the descriptor still has its own.
    const Descriptor opened = open();
    const bool is_free = opened.get() != file->get();
    file.reset();
    return is_other && is_free && is_locked() && ::fcntl(opened.get(), F_GETFD) >= 0 ? 1 : 0;
  });
  EXPECT_EQ(child.result(), 1);
  EXPECT_TRUE(is_locked());
  lock.reset();
  file.reset();
  EXPECT_FALSE(is_locked());
}

// As when a process is killed: without a word to the lock.
TEST_F(FileLocks, EndWithTheDescriptorsOfTheirProcessWhileAChildLives) {
  const Descriptor file = open();
  const FileLock lock(file.get(), Lock::kAlone);
  const LivingChild child([] { return 1; });
  EXPECT_TRUE(is_locked());
  const int other = ::open("/", O_PATH | O_CLOEXEC);
  ASSERT_EQ(::dup2(other, file.get()), file.get());
  ::close(other);
  EXPECT_FALSE(is_locked());
}

TEST_F(FileLocks, OfDirectoriesAreNotThoseOfAForkedChildEither) {
  const Directory around(directory_.name());
  around.make_directory("a");
  std::optional<Directory> locked = around.lock_directory("a", Lock::kAlone);
  ASSERT_TRUE(locked);
  const LivingChild child([&] { return around.lock_directory("a", Lock::kShared) ? 0 : 1; });
  EXPECT_EQ(child.result(), 1);
  locked.reset();
  EXPECT_TRUE(around.lock_directory("a", Lock::kAlone));
}

// Children are forked while other threads lock and unlock: none gets a lock that stays, or loses another descriptor.
TEST_F(FileLocks, AreLeftToTheParentAtAnyMoment) {
  constexpr int kThreads = 3, kForks = 100;
  const Descriptor kept = open();
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (!ends) {
        const Descriptor file = open();
        const FileLock lock(file.get(), Lock::kShared);
      }
    });
  }
  std::vector<pid_t> children;
  std::array<int, 2> ends_of_pipe{};
  ASSERT_EQ(::pipe2(ends_of_pipe.data(), O_CLOEXEC), 0);
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends_of_pipe[1]);
      struct stat status {};
      const bool is_kept = ::fstat(kept.get(), &status) == 0 && S_ISREG(status.st_mode);
      char none = 0;
      const bool has_ended = ::read(ends_of_pipe[0], &none, 1) == 0;
      ::_exit(is_kept && has_ended ? 0 : 1);
    }
    children.push_back(child);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(is_locked());
  for (const int end : ends_of_pipe) ::close(end);
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace tzmark
