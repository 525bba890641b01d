// arc4random for programs with libstdc++ linked in: std::random_device of gcc 12 and newer calls it, and glibc has it
// since 2.36 only.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  // Interrupted only before the kernel has seeded its generator.
  while (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}
