// Tests of what the system may refuse as a whole: direct I/O, rings, registered memory, mappings that can be checked.
#include <gmock/gmock.h>
#include <liburing.h>

#include <cerrno>
#include <fstream>

#include "testing/caught.h"
#include "testing/faults/system_faults.h"
#include "testing/files/path_test.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;
using test::random_bytes;
using test::read;
using test::RefusedCall;
using test::RefusedRings;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const IoPath& path_of(std::string_view name) {
  const auto found = std::ranges::find(io_paths(), name, &IoPath::name);
  if (found == io_paths().end()) throw std::runtime_error("no such path");
  return *found;
}

std::string reason_of(std::string_view name) { return path_of(name).why_unavailable(); }

// What only some file systems or kernels do; a reason if it is not there.
std::string why_not(std::string_view name, const test::TestDirectory& directory) {
  return test::why_unusable(path_of(name), directory);
}

class RefusalTest : public ::testing::Test {
 protected:
  const test::TestDirectory directory_;
  const std::string name_ = directory_ / "file";
  const Bytes content_ = random_bytes(300'001, 1);
};

TEST_F(RefusalTest, FileSystemsWithoutDirectIoAreSaidSo) {
  for (const char* name : {"direct", "uring-direct", "uring-sqpoll"}) {
    if (!reason_of(name).empty()) continue;
    const RefusedCall refused(RefusedCall::Call::kOpenDirect, EINVAL);
    EXPECT_EQ(caught([&] { open_file(name_, OpenMode::kCreate, name); }), failure(ErrorCode::kUnavailable));
    EXPECT_EQ(caught([&] { AtomicFile(name_, name); }), failure(ErrorCode::kUnavailable));
    // What was created for nothing is gone.
    EXPECT_THAT(directory_.entries(), IsEmpty());
    test::write_whole(name_, content_);
    EXPECT_EQ(caught([&] { open_file(name_, OpenMode::kRead, name); }), failure(ErrorCode::kUnavailable));
    EXPECT_EQ(test::read_whole(name_), content_);
    std::filesystem::remove(name_);
  }
}

TEST_F(RefusalTest, OtherErrorsOfOpeningDirectlyAreNoRefusals) {
  const RefusedCall refused(RefusedCall::Call::kOpenDirect, EMFILE);
  EXPECT_EQ(caught([&] { open_file(name_, OpenMode::kCreate, "direct"); }), failure(ErrorCode::kOpenFailed));
  EXPECT_THAT(directory_.entries(), IsEmpty());
}

TEST_F(RefusalTest, KernelsWithoutPopulatingHaveNoMmap) {
  const RefusedCall refused(RefusedCall::Call::kPopulate, EINVAL);
  EXPECT_THAT(reason_of("mmap"), HasSubstr("MADV_POPULATE_READ"));
  EXPECT_EQ(caught([&] { open_file(name_, OpenMode::kCreate, "mmap"); }), failure(ErrorCode::kUnavailable));
}

TEST_F(RefusalTest, PagesThatTheDeviceCannotGiveAreErrors) {
  test::write_whole(name_, content_);
  for (const int error_number : {EFAULT, EHWPOISON}) {
    const auto file = open_file(name_, OpenMode::kModify, "mmap");
    const RefusedCall refused(RefusedCall::Call::kPopulate, error_number);
    EXPECT_EQ(caught([&] { read(*file, 100, 10); }), failure(ErrorCode::kReadFailed, 100));
    EXPECT_EQ(caught([&] { file->write_at(100, std::span(content_).first(10)); }),
              failure(ErrorCode::kWriteFailed, 100));
  }
}

TEST_F(RefusalTest, AFileThatIsCutShortUnderAMappingIsAnError) {
  test::write_whole(name_, content_);
  const auto file = open_file(name_, OpenMode::kRead, "mmap");
  EXPECT_EQ(read(*file, 0, content_.size()), content_);
  std::filesystem::resize_file(name_, 10'000);
  EXPECT_EQ(caught([&] { read(*file, 0, content_.size()); }), failure(ErrorCode::kFileChanged, 10'000));
  EXPECT_EQ(caught([&] { read(*file, 200'000, 10); }), failure(ErrorCode::kFileChanged, 200'000));
  // Behind its end, the rest of the last page is there and zero, and no part of the file.
  EXPECT_EQ(caught([&] { read(*file, 9'990, 20); }), failure(ErrorCode::kFileChanged, 10'000));
  EXPECT_EQ(read(*file, 0, 10'000), Bytes(content_.begin(), content_.begin() + 10'000));
}

TEST_F(RefusalTest, DontcacheNeedsAFileSystemThatTakesIt) {
  if (const std::string reason = reason_of("pwrite-dontcache"); !reason.empty()) GTEST_SKIP() << reason;
  const RefusedCall refused(RefusedCall::Call::kDontcache, EOPNOTSUPP);
  EXPECT_EQ(caught([&] { open_file(name_, OpenMode::kCreate, "pwrite-dontcache"); }), failure(ErrorCode::kUnavailable));
  EXPECT_THAT(directory_.entries(), IsEmpty());
}

TEST_F(RefusalTest, RingsThatAreRefusedSayWhy) {
  const std::pair<int, const char*> reasons[] = {
      {ENOSYS, "no io_uring"}, {ENOMEM, "ulimit -l"}, {EMFILE, "Too many open files"}};
  for (const auto& [error_number, text] : reasons) {
    const RefusedRings refused(error_number);
    for (const char* name : {"uring", "uring-direct", "uring-sqpoll"}) {
      EXPECT_THAT(reason_of(name), HasSubstr(text)) << name;
      EXPECT_EQ(caught([&] { open_file(name_, OpenMode::kCreate, name); }), failure(ErrorCode::kUnavailable));
    }
    // Nothing else needs them.
    EXPECT_THAT(reason_of("pwrite"), IsEmpty());
  }
  const RefusedRings refused(EPERM);
  int disabled = 0;
  std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
  EXPECT_THAT(reason_of("uring"), HasSubstr(disabled == 0 ? "seccomp" : "kernel.io_uring_disabled"));
}

TEST_F(RefusalTest, ARingWithoutAThreadOfTheKernelIsNoReason) {
  if (const std::string reason = reason_of("uring-sqpoll"); !reason.empty()) GTEST_SKIP() << reason;
  const RefusedRings refused(EAGAIN, IORING_SETUP_SQPOLL);
  EXPECT_THAT(reason_of("uring-sqpoll"), IsEmpty());
}

TEST_F(RefusalTest, PolledRingsMayBeRefusedAlone) {
  if (const std::string reason = reason_of("uring"); !reason.empty()) GTEST_SKIP() << reason;
  const RefusedRings refused(EPERM, IORING_SETUP_SQPOLL);
  EXPECT_THAT(reason_of("uring"), IsEmpty());
  EXPECT_THAT(reason_of("uring-direct"), IsEmpty());
  EXPECT_THAT(reason_of("uring-sqpoll"), HasSubstr("SQPOLL"));
}

TEST_F(RefusalTest, RingsThatAreForbiddenLaterAreErrors) {
  if (const std::string reason = reason_of("uring"); !reason.empty()) GTEST_SKIP() << reason;
  const auto file = open_file(name_, OpenMode::kCreate, "uring");
  const RefusedRings refused(EPERM);
  EXPECT_EQ(caught([&] { file->make_queue(4); }), failure(ErrorCode::kUnavailable));
  EXPECT_EQ(caught([&] { file->write_at(0, std::span(content_)); }), failure(ErrorCode::kUnavailable));
}

// Writes and reads all through a queue, in pieces that are not aligned.
void expect_queues_to_work(const std::string& file_name, std::string_view path, Bytes content) {
  const auto file = open_file(file_name, OpenMode::kCreate, path);
  const auto queue = file->make_queue(4);
  Bytes back(content.size());
  const std::vector<MutableBuffer> buffers{std::span(content), std::span(back)};
  queue->register_memory(buffers);
  for (const auto& [kind, memory] :
       {std::pair{Transfer::Kind::kWrite, std::span(content)}, std::pair{Transfer::Kind::kRead, std::span(back)}}) {
    std::vector<Transfer> transfers(4);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t begin = content.size() * i / 4;
      const std::size_t end = content.size() * (i + 1) / 4;
      transfers[i] = {kind, begin, memory.subspan(begin, end - begin), nullptr, {}};
      queue->start(transfers[i]);
    }
    while (queue->in_flight() > 0) EXPECT_FALSE(queue->wait().error);
  }
  EXPECT_EQ(back, content);
  std::filesystem::remove(file_name);
}

TEST_F(RefusalTest, RingsDoWithoutWhatTheKernelRefuses) {
  for (const char* path : {"uring", "uring-direct", "uring-sqpoll"}) {
    if (!why_not(path, directory_).empty()) continue;
    SCOPED_TRACE(path);
    {
      const RefusedRings old_kernel(EINVAL, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
      expect_queues_to_work(name_, path, content_);
    }
    {
      const RefusedCall refused(RefusedCall::Call::kRegisterBuffers, ENOMEM);
      expect_queues_to_work(name_, path, content_);
    }
    {
      const RefusedCall refused(RefusedCall::Call::kRegisterFiles, EINVAL);
      expect_queues_to_work(name_, path, content_);
    }
    expect_queues_to_work(name_, path, content_);
  }
}

}  // namespace
}  // namespace tzmark
