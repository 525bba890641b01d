// Cache state is set and read. On a file system without a device (tmpfs) nothing can be dropped.
#include "harness/page_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/test_tmpfs.h"
#include "testing/files/test_directory.h"
#include "tzmark/descriptor.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kCachedBytes = (8 << 20) + 1;  // the last page holds one byte

class PageCache : public testing::Test {
 protected:
  PageCache() { test::write_whole(file_name_, test::random_bytes(kCachedBytes, 1)); }

  test::TestDirectory directory_;
  std::string file_name_ = directory_ / "file";
  bool lives_in_the_cache_ = test::is_tmpfs(directory_.name());
};

TEST_F(PageCache, DropsAndWarms) {
  if (lives_in_the_cache_) {
    EXPECT_EQ(drop(file_name_), 1);
    GTEST_SKIP() << "tmpfs has no pages elsewhere";
  }
  EXPECT_EQ(drop(file_name_), 0);
  EXPECT_EQ(resident_share(file_name_), 0);
  EXPECT_EQ(warm(file_name_), 1);
  EXPECT_EQ(resident_share(file_name_), 1);
}

TEST_F(PageCache, WarmsAnewFromTheDevice) {
  if (lives_in_the_cache_) GTEST_SKIP() << "tmpfs has no pages elsewhere";
  const auto bytes_read_by = [&](auto call) {
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    EXPECT_EQ(call(file_name_), 1);
    ::getrusage(RUSAGE_SELF, &after);
    return static_cast<std::size_t>(after.ru_inblock - before.ru_inblock) * 512;
  };
  // Less than the file, because other threads and page faults of the process count, too.
  EXPECT_LT(bytes_read_by(warm), kCachedBytes / 2) << "what was written is still there";
  ASSERT_EQ(drop(file_name_), 0);
  if (bytes_read_by(warm) < kCachedBytes / 2) GTEST_SKIP() << "this file system does not account reads to the process";
  EXPECT_GE(bytes_read_by(warm_anew), kCachedBytes - 1);
}

TEST_F(PageCache, SeesAPart) {
  if (lives_in_the_cache_) GTEST_SKIP() << "tmpfs has no pages elsewhere";
  ASSERT_EQ(drop(file_name_), 0);
  {
    const Descriptor fd(::open(file_name_.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM), 0);  // no reading ahead
    std::byte one{};
    ASSERT_EQ(::pread(fd.get(), &one, 1, 4 << 20), 1);
  }
  const double share = resident_share(file_name_);
  EXPECT_GT(share, 0);
  EXPECT_LT(share, 0.5);
}

TEST_F(PageCache, SaysWhatStays) {
  // A mapping keeps its pages resident.
  const Descriptor fd(::open(file_name_.c_str(), O_RDONLY | O_CLOEXEC));
  void* mapping = ::mmap(nullptr, kCachedBytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  ASSERT_NE(mapping, MAP_FAILED);
  EXPECT_EQ(drop(file_name_), 1);
  ::munmap(mapping, kCachedBytes);
}

TEST_F(PageCache, FreshlyWrittenIsResident) { EXPECT_EQ(resident_share(file_name_), 1); }

TEST_F(PageCache, EmptyFileHasNone) {
  test::write_whole(file_name_, {});
  EXPECT_EQ(resident_share(file_name_), 0);
  EXPECT_EQ(drop(file_name_), 0);
  EXPECT_EQ(warm(file_name_), 0);
}

TEST_F(PageCache, AbsentFileIsAnError) {
  for (const auto call : {resident_share, drop, warm, warm_anew}) {
    try {
      call(directory_ / "absent");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOpenFailed);
    }
  }
}

}  // namespace
}  // namespace tzmark::bench
