// Files that will be synced: large writes go to the device at once, and what fails there fails the sync.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "testing/caught.h"
#include "testing/faults/system_calls.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

using Range = std::pair<std::uint64_t, std::uint64_t>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WritebackTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Writes so many bytes to each of the offsets, and then syncs. Returns what sync_file_range was asked for.
  std::vector<Range> ranges_of(bool expects_sync, std::size_t bytes, const std::vector<std::uint64_t>& offsets) {
    std::vector<Range> ranges;
    const auto file = new_file();
    if (expects_sync) file->expect_sync();
    const test::SystemCalls calls([&](const test::Call& call) {
      if (call.function == "sync_file_range") ranges.emplace_back(call.offset, call.offset + call.bytes);
      return true;
    });
    const auto content = test::random_bytes(bytes, 1);
    for (const std::uint64_t offset : offsets) file->write_at(offset, {content.data(), content.size()});
    file->sync();
    return ranges;
  }

  std::unique_ptr<File> new_file() {
    return open_file(directory_ / std::to_string(++files_), OpenMode::kCreate, GetParam());
  }

 private:
  const test::TestDirectory directory_;
  int files_ = 0;
};

INSTANTIATE_TEST_SUITE_P(PageCache, WritebackTest, ::testing::Values("pwrite", "buffered"),
                         [](const auto& path) { return std::string(path.param); });

TEST_P(WritebackTest, BeginsWithEachLargeWriteOfAFileThatWillBeSynced) {
  constexpr std::size_t kBytes = 1 << 20;
  EXPECT_THAT(ranges_of(true, kBytes, {0, kBytes}), ElementsAre(Range(0, kBytes), Range(kBytes, 2 * kBytes)));
  EXPECT_THAT(ranges_of(false, kBytes, {0, kBytes}), IsEmpty()) << "no sync was announced";
  EXPECT_THAT(ranges_of(true, 100'000, {0, 100'000}), IsEmpty()) << "these are small";
}

TEST_P(WritebackTest, LeavesPagesThatTheNextWriteChanges) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t bytes = 64 * page;
  ASSERT_GE(bytes, 256U << 10);
  EXPECT_THAT(ranges_of(true, bytes, {100, 100 + bytes}),
              ElementsAre(Range(page, bytes), Range(bytes + page, 2 * bytes)));
}

// The file system may have dropped the pages, of which an fsync would say nothing.
TEST_P(WritebackTest, FailsTheSyncWithWhatFailed) {
  const auto content = test::random_bytes(1 << 20, 1);
  const auto sync_after = [&](int error_number) {
    const auto file = new_file();
    file->expect_sync();
    const test::SystemCalls calls([&](const test::Call& call) {
      return call.function == "sync_file_range" ? test::Reply::failure(error_number) : test::Reply(true);
    });
    file->write_at(0, {content.data(), content.size()});
    return test::caught([&] { file->sync(); });
  };
  for (const int error_number : {EIO, ENOSPC}) {
    const auto result = sync_after(error_number);
    EXPECT_EQ(result.code, ErrorCode::kSyncFailed) << error_number;
  }
  for (const int error_number : {ENOSYS, EPERM, EINVAL, EINTR}) {
    EXPECT_EQ(sync_after(error_number).code, std::nullopt) << "the sync writes all of it: " << error_number;
  }
}

}  // namespace
}  // namespace tzmark
