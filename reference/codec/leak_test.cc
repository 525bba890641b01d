// Opening, reading and closing a file thousands of times leaves nothing behind: no descriptor, mapping, thread, pinned
// page or byte.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "testing/files/path_test.h"
#include "testing/files/tensors_files.h"
#include "tzmark/reader.h"

namespace tzmark {
namespace {

#ifdef TZMARK_CHECK_REQUIRES
constexpr int kCycles = 500;  // of a build with assertions or a sanitizer, which has a heap of its own
constexpr bool kHasPlainHeap = false;
#else
constexpr int kCycles = 10'000;
constexpr bool kHasPlainHeap = true;
#endif
constexpr int kCyclesBefore = 50;  // what is kept for good is there then
// Of the heap of all threads, whose caches differ a little from moment to moment.
constexpr std::size_t kHeapGrowthBytesMax = 64 << 10;

// What a process holds of the kernel.
struct Held {
  std::ptrdiff_t descriptors = 0, threads = 0, mappings = 0;
  std::string locked, pinned;  // lines of /proc/self/status
  std::size_t heap_bytes = 0;
};

std::ptrdiff_t entries_of(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
}

Held held_now() {
  Held held;
  held.descriptors = entries_of("/proc/self/fd");
  held.threads = entries_of("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++held.mappings;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmLck:")) held.locked = line;
    if (line.starts_with("VmPin:")) held.pinned = line;
  }
  held.heap_bytes = ::mallinfo2().uordblks;
  return held;
}

std::vector<std::string> host_memory_paths() {
  auto names = test::disk_paths();
  std::erase(names, "gpudirect");
  return names;
}

// The kernel ends its threads, and unpins the memory, of a ring some time after the ring is closed.
Held held_after_closing() {
  constexpr int kTries = 300;
  Held held = held_now();
  for (int i = 0; i < kTries && (held.threads > 1 || held.pinned.find(" 0 kB") == std::string::npos); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held = held_now();
  }
  return held;
}

class LeakTest : public test::PathTest {};

INSTANTIATE_TEST_SUITE_P(EveryPath, LeakTest, ::testing::ValuesIn(host_memory_paths()), test::test_name);

TEST_P(LeakTest, CyclesOfOpenAndCloseLeaveNothing) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer has a thread of its own";
#endif
  const std::string name = new_name();
  const test::Content content = test::three_tensors();
  write_file(name, content.table, content.source(), {});
  const auto cycle = [&] {
    ReadOptions options;
    options.io_path = GetParam();
    options.threads = 2;
    ASSERT_EQ(Reader::open(name, std::move(options)).load().size(), content.data.size());
  };
  for (int i = 0; i < kCyclesBefore && !HasFatalFailure(); ++i) cycle();
  const Held before = held_after_closing();
  // The kernel takes milliseconds to start a thread for each ring.
  const int cycles = GetParam().ends_with("sqpoll") ? kCycles / 20 : kCycles;
  for (int i = 0; i < cycles && !HasFatalFailure(); ++i) cycle();
  const Held after = held_after_closing();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.locked, before.locked);
  EXPECT_EQ(after.pinned, before.pinned);
  // A sanitizer keeps mappings of freed memory.
  if (kHasPlainHeap) {
    // The heap may take an arena more.
    EXPECT_LE(after.mappings, before.mappings + 16);
    EXPECT_LE(after.heap_bytes, before.heap_bytes + kHeapGrowthBytesMax);
  }
}

}  // namespace
}  // namespace tzmark
