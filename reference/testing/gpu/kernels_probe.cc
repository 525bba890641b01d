// For tests: prints why kernels cannot be used in a process that has loaded nothing before, or an empty line. With
// TZMARK_PROBE_CALLS in the environment, it prints the error of a call that does not ask first.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tzmark/device_compute.h"
#include "tzmark/device_memory.h"
#include "tzmark/error.h"

int main() {
  if (std::getenv("TZMARK_PROBE_CALLS") == nullptr) {
    std::puts(tzmark::why_no_device_compute().c_str());
    return 0;
  }
  const tzmark::DeviceMemory memory(1'000);
  const std::array range = {tzmark::ConstBuffer(memory.buffer())};
  try {
    static_cast<void>(tzmark::crc32_on_device(range));
  } catch (const tzmark::Error& error) {
    std::puts(error.what());
  }
}
