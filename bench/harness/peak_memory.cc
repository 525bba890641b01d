// Reads /proc/self/status; see peak_memory.h.
#include "harness/peak_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "harness/shortages.h"
#include "harness/small_file.h"
#include "tzmark/error.h"

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

}  // namespace tzmark::bench
