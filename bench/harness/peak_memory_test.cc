// Peak memory includes new allocations, but not mapped files or earlier memory.
#include "harness/peak_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>

#include "testing/files/test_directory.h"
#include "tzmark/descriptor.h"
#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kTestedBytes = 64 << 20;
// The counters of the kernel lag behind, and the test itself allocates a little.
constexpr std::size_t kSlackBytes = 8 << 20;

void touch(const HostMemory& memory) { std::ranges::fill(memory.bytes(), std::byte{1}); }

TEST(PeakMemory, SeesWhatWasGivenBack) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's shadow is anonymous memory too";
#endif
  const HostMemory before(kTestedBytes);
  touch(before);
  PeakMemory peak;
  {
    const HostMemory taken(kTestedBytes);
    touch(taken);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  const MemoryPeak seen = peak.stop();
  EXPECT_GT(seen.anonymous_bytes, kTestedBytes - kSlackBytes);
  EXPECT_LT(seen.anonymous_bytes, kTestedBytes + kSlackBytes);
  EXPECT_GT(seen.resident_bytes, kTestedBytes - kSlackBytes);
}

TEST(PeakMemory, LeavesMappedFilesOut) {
  const test::TestDirectory directory;
  test::write_whole(directory / "file", test::Bytes(kTestedBytes, std::byte{1}));
  const Descriptor fd(::open((directory / "file").c_str(), O_RDONLY | O_CLOEXEC));
  PeakMemory peak;
  void* mapping = ::mmap(nullptr, kTestedBytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  ASSERT_NE(mapping, MAP_FAILED);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const MemoryPeak seen = peak.stop();
  ::munmap(mapping, kTestedBytes);
  EXPECT_LT(seen.anonymous_bytes, kSlackBytes);
  EXPECT_GT(seen.resident_bytes, kTestedBytes - kSlackBytes);
}

TEST(PeakMemory, NothingIsLittle) {
  PeakMemory peak;
  EXPECT_LT(peak.stop().anonymous_bytes, kSlackBytes);
  const PeakMemory ends_by_itself;
}

}  // namespace
}  // namespace tzmark::bench
