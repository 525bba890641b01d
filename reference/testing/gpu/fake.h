// For tests: what the stand-ins of libcuda and libcufile can be told, and what they tell.
//
// Both are shared libraries that only tests build and load. Functions may be called from any threads; the orders are
// set while no call is in flight.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tzmark::test {

enum class FakeRoute { kP2p, kNvidiaFs, kPosix, kInTurn, kUnnamed };

struct FakeOrders {
  // The call of this number, from 0, fails: registering of files and of memory, reads and writes count together.
  std::int64_t fail_call = -1;
  // What it fails with: an errno, positive (for reads and writes), or a CUfileOpError.
  int fail_with = 5030;
  // Reads and writes say a CUfileOpError by errno: libcufile has both ways.
  bool fails_by_errno = false;
  // Reads and writes of more than this move this much.
  std::size_t bytes_max = SIZE_MAX;
  // The next this many reads and writes are interrupted (EINTR).
  std::atomic<int> interruptions = 0;
  // Reads and writes return this, if it is not 0, and move nothing.
  ssize_t lie = 0;
  // What the statistics say.
  FakeRoute route = FakeRoute::kPosix;
  bool counts_bytes = true;
  int statistics_error = 0;

  std::atomic<std::int64_t> calls = 0;
  std::atomic<std::int64_t> files_registered = 0;
  std::atomic<std::int64_t> memory_registered = 0;
  std::atomic<std::int64_t> moves_from_registered = 0;  // reads and writes of registered memory, by its base
  std::atomic<int> statistics_level = 0;
};

// What the stand-in of libcuda can be told. Every call counts that may fail where there is a GPU: not those that free.
struct FakeCudaOrders {
  // The call of this number, from 0, fails with that CUresult.
  std::int64_t fail_call = -1;
  int fail_with = 2;
  // Copies between the device and pinned memory happen as late as they may: when their stream, or an event after them,
  // is waited for. Otherwise at once.
  bool copies_late = false;
  // Kernels are taken, and nothing comes of it.
  bool forgets_launches = false;
  // Bytes to look for in device memory that is freed, and in host memory that is unpinned.
  const std::byte* secret = nullptr;
  std::size_t secret_bytes = 0;

  std::atomic<std::int64_t> calls = 0;
  std::atomic<std::int64_t> launches = 0;
  std::atomic<const char*> last_kernel = nullptr;  // that was launched
  std::atomic<std::int64_t> allocations = 0;       // not freed yet
  std::atomic<std::int64_t> contexts = 0;          // primary ones that were retained
  std::atomic<std::int64_t> streams = 0;           // not destroyed yet
  std::atomic<std::int64_t> events = 0;            // not destroyed yet
  std::atomic<std::int64_t> stream_waits = 0;
  std::atomic<std::int64_t> late_copies = 0;  // that were started, and not at once
  std::atomic<std::int64_t> secrets_left = 0;
};

// A kernel that the stand-in of libcuda can launch.
struct FakeKernel {
  const char* name;
  unsigned threads;       // of a block
  unsigned shared_bytes;  // of a block, which a launch has to ask for
  void (*run)(unsigned blocks, const void* arguments);
};

}  // namespace tzmark::test

// Null if there is no such kernel. Of the same library as the stand-in, but of the directory that has the kernels.
const tzmark::test::FakeKernel* tzmark_fake_kernel(const char* name);

extern "C" {
// Of the stand-in of libcuda. The bytes of device memory; null if they were not allocated, all of them in one piece.
std::byte* tzmark_fake_device_bytes(std::uint64_t address, std::size_t bytes);
std::size_t tzmark_fake_pinned_bytes();  // host memory, of all ranges
bool tzmark_fake_has_context();
tzmark::test::FakeCudaOrders* tzmark_fake_cuda_orders();
// Of the stand-in of libcufile.
tzmark::test::FakeOrders* tzmark_fake_orders();
}
