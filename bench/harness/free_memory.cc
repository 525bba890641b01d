// Maps and touches memory; see free_memory.h.
#include "harness/free_memory.h"

#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/cgroup.h"
#include "harness/small_file.h"
#include "tzmark/error.h"
#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

// Of the requests while a MemoryTouchedOnce exists, the largest; nothing while none does.
std::optional<std::uint64_t> touched_once_bytes;

// Memory that the host keeps taking is not worth more time than this.
constexpr int kTouchesMax = 4;
// The lists of all cores of the machine together hold at most an eighth of its memory:
// MIN_PERCPU_PAGELIST_HIGH_FRACTION of Linux, from 6.7 on. Older ones hold less.
constexpr std::uint64_t kListsFraction = 8;
// The fastest touch so far, of memory that the host had not taken; 0 before the first one.
double least_ns_per_byte = 0;

std::uint64_t meminfo_bytes(const std::string& text, const char* label) {
  const auto value = labelled(text, label);
  return value ? std::strtoull(value->c_str(), nullptr, 10) * 1024 : 0;
}

constexpr int kAnyCore = -1;

// Whether a cgroup limits the memory or the time of the cores.
bool is_limited() {
  static const bool limited = [] {
    const CgroupLimits limits = cgroup_limits();
    return limits.memory_bytes || limits.cpu_cores;
  }();
  return limited;
}

// The cores that this process may run on.
std::vector<int> own_cores() {
  cpu_set_t allowed;
  // Fails on machines with more than 1,024 cores.
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {kAnyCore};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

void move_to(int core) {
  if (core == kAnyCore) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  static_cast<void>(::sched_setaffinity(0, sizeof one, &one));
}

// Maps and touches that much new memory on each core at the same time, and then unmaps all of it. Returns the time that
// the slowest core took in nanoseconds.
double touch_new_memory(const std::vector<int>& cores, std::uint64_t bytes_each) {
  constexpr std::size_t kPageBytes = 4096;
  std::vector<double> elapsed_ns(cores.size());
  std::vector<HostMemory> memory;
  for (std::size_t i = 0; i < cores.size(); ++i) memory.emplace_back(bytes_each);
  std::barrier all_have_touched(static_cast<std::ptrdiff_t>(cores.size()));
  const auto touch = [&](std::size_t i) {
    move_to(cores[i]);
    const std::span<std::byte> all = memory[i].bytes();
    const auto begin = std::chrono::steady_clock::now();
    // volatile keeps the compiler from removing the stores.
    for (std::size_t at = 0; at < all.size(); at += kPageBytes) *const_cast<volatile std::byte*>(&all[at]) = {};
    elapsed_ns[i] = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    all_have_touched.arrive_and_wait();
    memory[i] = HostMemory();  // freed on the core whose list is to have it
  };
  std::vector<std::jthread> threads;
  try {
    while (threads.size() < cores.size()) threads.emplace_back(touch, threads.size());
  } catch (const std::exception&) {
    // The cores that are left out may make a run slow, and fail none.
    for (std::size_t i = threads.size(); i < cores.size(); ++i) all_have_touched.arrive_and_drop();
  }
  threads.clear();
  return *std::ranges::max_element(elapsed_ns);
}

}  // namespace

MemoryTouchedOnce::MemoryTouchedOnce(std::uint64_t touched_bytes) { touched_once_bytes = touched_bytes; }
MemoryTouchedOnce::~MemoryTouchedOnce() { touched_once_bytes.reset(); }

void empty_heap() { static_cast<void>(::malloc_trim(0)); }

bool touch_free_memory(std::uint64_t bytes) {
  // Ranks may be threads of one process.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (touched_once_bytes) {
    if (bytes <= *touched_once_bytes) return false;
    touched_once_bytes = bytes;
  }
  const std::string meminfo = read_text("/proc/meminfo").value_or("");
  const std::vector<int> cores = is_limited() ? std::vector{kAnyCore} : own_cores();
  const auto cores_of_machine = static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const std::uint64_t list_bytes =
      is_limited() ? 0 : meminfo_bytes(meminfo, "MemTotal") / kListsFraction / cores_of_machine;
  const std::uint64_t bytes_each = std::min(bytes / cores.size() + std::min(bytes, list_bytes),
                                            meminfo_bytes(meminfo, "MemFree") / 2 / cores.size());
  if (bytes_each == 0) return false;
  for (int i = 0; i < kTouchesMax; ++i) {
    double ns_per_byte = 0;
    try {
      ns_per_byte = touch_new_memory(cores, bytes_each) / static_cast<double>(bytes_each);
    } catch (const Error&) {
      return i > 0;  // a limit of this process; what the run needs may be below it
    }
    const bool is_first = least_ns_per_byte == 0;
    if (is_first || ns_per_byte < least_ns_per_byte) least_ns_per_byte = ns_per_byte;
    if (!is_first && ns_per_byte <= 2 * least_ns_per_byte) break;
  }
  return true;
}

}  // namespace tzmark::bench
