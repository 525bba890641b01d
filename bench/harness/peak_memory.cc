// Reads /proc/self/status; see peak_memory.h.
#include "harness/peak_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <system_error>

#include "harness/shortages.h"
#include "harness/small_file.h"
#include "tzmark/error.h"
#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

constexpr std::chrono::milliseconds kSampleInterval(1);

// "VmHWM:     1234 kB"
std::uint64_t status_bytes(const std::string& status, std::string_view label) {
  const auto value = labelled(status, label);
  if (!value) throw Error(ErrorCode::kUnavailable, fmt::format("/proc/self/status has no {}", label));
  return std::strtoull(value->c_str(), nullptr, 10) * 1024;
}

std::string own_status() { return read_text("/proc/self/status").value_or(""); }

void forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  if (!file) throw Error(ErrorCode::kUnavailable, "/proc/self/clear_refs cannot reset the peak of memory");
}

}  // namespace

PeakMemory::PeakMemory() {
  forget_peak();
  const std::string status = own_status();
  anonymous_before_bytes_ = status_bytes(status, "RssAnon");
  resident_before_bytes_ = status_bytes(status, "VmRSS");
  const auto keep_sampling = [this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      sample();
      std::this_thread::sleep_for(kSampleInterval);
    }
  };
  try {
    sampler_ = std::jthread(keep_sampling);
  } catch (const std::system_error&) {
    throw missing_threads(1);
  }
}

void PeakMemory::sample() {
  // A failed read is repeated by the next sample.
  const auto anonymous = labelled(own_status(), "RssAnon");
  if (!anonymous) return;
  const std::uint64_t bytes = std::strtoull(anonymous->c_str(), nullptr, 10) * 1024;
  anonymous_peak_bytes_ = std::max(anonymous_peak_bytes_.load(), bytes);
}

MemoryPeak PeakMemory::stop() {
  sampler_.request_stop();
  sampler_.join();
  sample();
  const auto above = [](std::uint64_t peak, std::uint64_t before) { return peak > before ? peak - before : 0; };
  return {above(anonymous_peak_bytes_, anonymous_before_bytes_),
          above(status_bytes(own_status(), "VmHWM"), resident_before_bytes_)};
}

namespace {

// Of the requests while a MemoryTouchedOnce exists, the largest; nothing while none does.
std::optional<std::uint64_t> touched_once_bytes;

// Memory that the host keeps taking is not worth more time than this.
constexpr int kTouchesMax = 4;
// The fastest touch so far, of memory that the host had not taken; 0 before the first one.
double least_ns_per_byte = 0;

// Maps, touches and unmaps new memory. Returns the time of the touch in nanoseconds.
double touch_new_memory(std::uint64_t bytes) {
  constexpr std::size_t kPageBytes = 4096;
  const HostMemory memory(bytes);
  const std::span<std::byte> all = memory.bytes();
  const auto begin = std::chrono::steady_clock::now();
  // volatile keeps the compiler from removing the stores.
  for (std::size_t at = 0; at < all.size(); at += kPageBytes) *const_cast<volatile std::byte*>(&all[at]) = {};
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

MemoryTouchedOnce::MemoryTouchedOnce() { touched_once_bytes = 0; }
MemoryTouchedOnce::~MemoryTouchedOnce() { touched_once_bytes.reset(); }

std::uint64_t touch_free_memory(std::uint64_t bytes) {
  if (touched_once_bytes) {
    if (bytes <= *touched_once_bytes) return 0;
    touched_once_bytes = bytes;
  }
  const auto free = labelled(read_text("/proc/meminfo").value_or(""), "MemFree");
  if (!free) return 0;
  bytes = std::min<std::uint64_t>(bytes, std::strtoull(free->c_str(), nullptr, 10) * 1024 / 2);
  for (int i = 0; i < kTouchesMax && bytes > 0; ++i) {
    const double ns_per_byte = touch_new_memory(bytes) / static_cast<double>(bytes);
    if (least_ns_per_byte == 0 || ns_per_byte < least_ns_per_byte) {
      const bool is_first = least_ns_per_byte == 0;
      least_ns_per_byte = ns_per_byte;
      if (is_first) continue;
    }
    if (ns_per_byte <= 2 * least_ns_per_byte) break;
  }
  return bytes;
}

}  // namespace tzmark::bench
