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

enum class StandInRoute { kP2p, kNvidiaFs, kPosix, kInTurn, kUnnamed };

struct StandInOrders {
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
  StandInRoute route = StandInRoute::kPosix;
  bool counts_bytes = true;
  int statistics_error = 0;

  std::atomic<std::int64_t> calls = 0;
  std::atomic<std::int64_t> files_registered = 0;
  std::atomic<std::int64_t> memory_registered = 0;
  std::atomic<std::int64_t> moves_from_registered = 0;  // reads and writes of registered memory, by its base
  std::atomic<int> statistics_level = 0;
};

}  // namespace tzmark::test

extern "C" {
// Of the stand-in of libcuda. The bytes of device memory; null if they were not allocated, all of them in one piece.
std::byte* tzmark_stand_in_device_bytes(std::uint64_t address, std::size_t bytes);
std::size_t tzmark_stand_in_pinned_bytes();  // host memory, of all ranges
bool tzmark_stand_in_has_context();
// Of the stand-in of libcufile.
tzmark::test::StandInOrders* tzmark_stand_in_orders();
}
