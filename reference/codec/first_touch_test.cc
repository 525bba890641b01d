// FirstTouch: which bytes it touches, once, before any of several threads writes.
#include "tzmark/first_touch.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tzmark {
namespace {

// Whether the page of the base size that contains the byte is present.
bool is_present(const std::byte* byte) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* const page = const_cast<std::byte*>(byte) - reinterpret_cast<std::uintptr_t>(byte) % page_bytes;
  unsigned char state = 0;
  EXPECT_EQ(::mincore(page, 1, &state), 0);
  return (state & 1U) != 0;
}

TEST(FirstTouch, TouchesTheLastByteOfEachHugePageOfThePart) {
  // Small pages show what was touched.
  const HostMemory memory(4 * kHugePageBytes, HostMemory::Pages::kSmall);
  const std::span<std::byte> all = memory.bytes();
  const std::size_t skip = kHugePageBytes - reinterpret_cast<std::uintptr_t>(all.data()) % kHugePageBytes;
  const std::span<std::byte> pages = all.subspan(skip % kHugePageBytes);
  FirstTouch touch(pages.first(3 * kHugePageBytes - 1));
  touch.touch(pages.subspan(kHugePageBytes + 5, 10));
  EXPECT_FALSE(is_present(&pages[kHugePageBytes - 1])) << "of the page before";
  EXPECT_FALSE(is_present(&pages[kHugePageBytes + 5])) << "the part itself";
  EXPECT_TRUE(is_present(&pages[2 * kHugePageBytes - 1]));
  EXPECT_FALSE(is_present(&pages[3 * kHugePageBytes - 2]));
  touch.touch(pages.subspan(2 * kHugePageBytes - 1, 2));
  EXPECT_TRUE(is_present(&pages[3 * kHugePageBytes - 2])) << "the last byte of the memory";
}

TEST(FirstTouch, LeavesWhatWasWrittenAfterTheFirstTouch) {
  const HostMemory memory(kHugePageBytes);
  FirstTouch touch(memory.bytes());
  touch.touch(memory.bytes().first(1));
  std::ranges::fill(memory.bytes(), std::byte{7});
  touch.touch(memory.bytes());
  EXPECT_EQ(std::ranges::count(memory.bytes(), std::byte{7}), kHugePageBytes);
}

// Makes the first touch of a huge page take as long as the test wants: a page without access raises a signal, whose
// handler waits.
class SlowPage {
 public:
  explicit SlowPage(std::byte* page) {
    page_ = page;
    is_touched = may_go = false;
    if (::mprotect(page, kHugePageBytes, PROT_NONE) != 0) throw std::runtime_error("mprotect");
    struct sigaction action {};
    action.sa_handler = [](int) {
      is_touched = true;
      while (!may_go) ::sched_yield();
      ::mprotect(page_, kHugePageBytes, PROT_READ | PROT_WRITE);
    };
    if (::sigaction(SIGSEGV, &action, &before_) != 0) throw std::runtime_error("sigaction");
  }
  ~SlowPage() {
    may_go = true;
    ::mprotect(page_, kHugePageBytes, PROT_READ | PROT_WRITE);
    ::sigaction(SIGSEGV, &before_, nullptr);
  }
  SlowPage(const SlowPage&) = delete;
  SlowPage& operator=(const SlowPage&) = delete;

  static inline std::atomic<bool> is_touched, may_go;

 private:
  static inline std::byte* page_ = nullptr;
  struct sigaction before_ {};
};

TEST(FirstTouch, ClearsTheNextPageInsteadOfWaiting) {
  const HostMemory memory(4 * kHugePageBytes, HostMemory::Pages::kSmall);
  const std::span<std::byte> all = memory.bytes();
  const std::size_t skip = kHugePageBytes - reinterpret_cast<std::uintptr_t>(all.data()) % kHugePageBytes;
  const std::span<std::byte> pages = all.subspan(skip % kHugePageBytes).first(3 * kHugePageBytes);
  FirstTouch touch(pages);
  std::atomic<bool> is_done = false;
  std::jthread first, second;
  const SlowPage slow(pages.data());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto await = [&](auto condition) {
    while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return condition();
  };
  first = std::jthread([&] { touch.touch(pages.first(1)); });
  ASSERT_TRUE(await([] { return SlowPage::is_touched.load(); }));
  second = std::jthread([&] {
    touch.touch(pages.subspan(kHugePageBytes / 2, 1));
    is_done = true;
  });
  EXPECT_TRUE(await([&] { return is_present(&pages[2 * kHugePageBytes - 1]); })) << "the page after the part";
  EXPECT_FALSE(is_present(&pages[3 * kHugePageBytes - 1])) << "the one after that";
  EXPECT_FALSE(is_done) << "the part may not be written yet";
  SlowPage::may_go = true;
  first.join();
  second.join();
  EXPECT_TRUE(is_present(&pages[kHugePageBytes - 1]));
}

TEST(FirstTouch, LetsThreadsWriteToTheSamePage) {
  constexpr std::size_t kThreads = 4, kParts = 64;
  const HostMemory memory(3 * kHugePageBytes + 100);
  FirstTouch touch(memory.bytes());
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        // Neighbours belong to different threads, so that all of them meet in each huge page.
        const std::size_t part_bytes = memory.bytes().size() / kParts;
        for (std::size_t i = thread; i < kParts; i += kThreads) {
          const std::size_t end = i + 1 == kParts ? memory.bytes().size() : (i + 1) * part_bytes;
          const std::span<std::byte> part = memory.bytes().subspan(i * part_bytes, end - i * part_bytes);
          touch.touch(part);
          std::ranges::fill(part, std::byte{9});
        }
      });
    }
  }
  EXPECT_EQ(std::ranges::count(memory.bytes(), std::byte{9}), memory.bytes().size());
}

TEST(FirstTouch, IgnoresPartsIfItHasNoMemory) {
  std::vector<std::byte> other(1);
  FirstTouch touch;
  touch.touch(other);
  touch.touch({});
}

}  // namespace
}  // namespace tzmark
