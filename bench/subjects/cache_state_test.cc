// The cache state of a file before a run, where another path leaves pages that go away by themselves.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "harness/page_cache.h"
#include "subjects/ours.h"
#include "testing/files/test_directory.h"
#include "tzmark/io.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kMarkedBytes = 64 << 20;

// The kernel drops pages that were written with RWF_DONTCACHE when their writeback ends, though others read them since.
TEST(CacheState, WarmsAFileWhosePagesAreMarkedToBeDropped) {
  const test::TestDirectory directory;
  const std::string file_name = directory / "file";
  for (const IoPath& path : io_paths()) {
    if (path.name == "pwrite-dontcache" && !path.why_unavailable().empty()) GTEST_SKIP() << path.why_unavailable();
  }
  const auto bytes = test::random_bytes(kMarkedBytes, 1);
  for (int attempt = 0; attempt < 8; ++attempt) {
    std::filesystem::remove(file_name);
    const auto file = open_file(file_name, OpenMode::kCreate, "pwrite-dontcache");
    file->write_at(0, {bytes.data(), bytes.size()});
    EXPECT_EQ(warm(file_name), 1);
    // Begins the writeback, at whose end the pages go.
    const std::jthread writeback([&] { file->sync(); });
    EXPECT_GE(make_cache_state(file_name, Cache::kWarm, kMarkedBytes), 0.98);
  }
}

}  // namespace
}  // namespace tzmark::bench
