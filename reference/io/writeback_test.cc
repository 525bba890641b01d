// Files that will be synced: their writes go to the device at once, and those of other files wait for the kernel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "testing/files/test_directory.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

constexpr std::size_t kPieceBytes = 2 << 20;
constexpr std::size_t kPieces = 4;

// The pages that wait for writeback. Nothing if the kernel cannot tell (before Linux 6.5).
std::optional<std::uint64_t> dirty_pages(const std::string& file_name) {
  struct {
    std::uint64_t offset = 0, bytes = 0;  // all of the file
  } range;
  struct {
    std::uint64_t cached = 0, dirty = 0, in_writeback = 0, evicted = 0, recently_evicted = 0;
  } counts;
  const int fd = ::open(file_name.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GE(fd, 0);
  const bool tells = ::syscall(SYS_cachestat, fd, &range, &counts, 0) == 0;
  ::close(fd);
  if (!tells) return {};
  return counts.dirty;
}

class WritebackTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::optional<std::uint64_t> dirty_pages_after_writes(bool expects_sync) {
    const std::string name = directory_ / (expects_sync ? "synced" : "left");
    const auto file = open_file(name, OpenMode::kCreate, GetParam());
    if (expects_sync) file->expect_sync();
    const auto bytes = test::random_bytes(kPieceBytes, 1);
    // Not at the beginning of a page.
    for (std::size_t i = 0; i < kPieces; ++i) file->write_at(100 + i * kPieceBytes, {bytes.data(), bytes.size()});
    return dirty_pages(name);
  }

 private:
  const test::TestDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(PageCache, WritebackTest, ::testing::Values("pwrite", "buffered"),
                         [](const auto& path) { return std::string(path.param); });

TEST_P(WritebackTest, BeginsWithEachLargeWriteOfAFileThatWillBeSynced) {
  constexpr std::uint64_t kPages = kPieces * kPieceBytes / 4096;
  const auto left = dirty_pages_after_writes(false);
  if (!left) GTEST_SKIP() << "the kernel does not tell which pages are dirty";
  if (*left < kPages / 2) GTEST_SKIP() << "no file system on a disk: no page waits for writeback";
  // The pages in which two pieces meet may wait.
  EXPECT_LE(*dirty_pages_after_writes(true), kPages / 8);
}

}  // namespace
}  // namespace tzmark
