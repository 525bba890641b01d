// The cache state of a file before a run, where another path leaves pages that go away by themselves.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "harness/free_memory.h"
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

// Codec and raw path alike, so that neither has the better memory.
TEST(CacheState, ReadsKeepTheirMemoryForTheNextSampleAndWritesDoNot) {
  const test::TestDirectory directory;
  Workplace place(directory.name());
  const auto content = std::make_shared<TensorContent>(even_workload(8, 1 << 20));
  const std::uint64_t bytes = content->data_bytes();
  const IoSettings moving{.io = "pwrite"};
  const auto keeps = [&](std::unique_ptr<Subject> subject) {
    subject->verify();
    hold_memory(nullptr, 0);
    static_cast<void>(subject->run());
    return touch_free_memory(bytes) == 0;
  };
  EXPECT_TRUE(keeps(codec_read(place, content, {}, moving, {})));
  EXPECT_TRUE(keeps(raw_read(place, content, moving, Target::kHugePages, Cache::kWarm)));
  EXPECT_FALSE(keeps(codec_write(place, content, {}, moving)));
  EXPECT_FALSE(keeps(raw_write(place, content, moving)));
  EXPECT_FALSE(keeps(raw_read(place, content, moving, Target::kSink, Cache::kWarm)));
}

}  // namespace
}  // namespace tzmark::bench
