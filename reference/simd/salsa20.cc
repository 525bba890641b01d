// Choice of the Salsa20 kernel, and what does not fill its lanes.
#include "simd/salsa20.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

#include "bytes/requires.h"
#include "simd/forced.h"
#include "tzmark/error.h"

namespace tzmark::simd {
namespace {

static_assert(crypto_stream_salsa20_KEYBYTES == kSalsa20KeyBytes);
static_assert(crypto_stream_salsa20_NONCEBYTES == kSalsa20NonceBytes);

// A kernel computes a whole group for its first byte; libsodium is faster for this much.
constexpr std::size_t kMaxSodiumTailBytes = kSalsa20BlockBytes;
// More than a kernel's frame, where registers may have been spilled.
constexpr std::size_t kWipedStackBytes = 2048;

void xor_with_sodium(const Salsa20Input& input, std::uint64_t block, const unsigned char* in, unsigned char* out,
                     std::size_t bytes) {
  crypto_stream_salsa20_xor_ic(out, in, bytes, reinterpret_cast<const unsigned char*>(input.nonce), block,
                               reinterpret_cast<const unsigned char*>(input.key));
}

void xor_blocks_with_sodium(const Salsa20Input& input, std::uint64_t block, const unsigned char* in, unsigned char* out,
                            std::size_t blocks) {
  xor_with_sodium(input, block, in, out, blocks * kSalsa20BlockBytes);
}

std::vector<Salsa20Kernel> find_salsa20_kernels() {
  // Before this call, libsodium uses its slowest code.
  if (sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium failed to initialize");
  std::vector<Salsa20Kernel> kernels = {{"none", kSalsa20BlockBytes, xor_blocks_with_sodium}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    kernels.push_back({"avx2", kAvx2GroupBytes, salsa20_xor_avx2<Salsa20Constants>});
  }
  if (__builtin_cpu_supports("avx512f")) {
    kernels.push_back({"avx512", kAvx512GroupBytes, salsa20_xor_avx512<Salsa20Constants>});
  }
#endif
  return kernels;
}

const Salsa20Kernel& fastest_salsa20_kernel(std::span<const Salsa20Kernel> kernels) {
  constexpr std::size_t kBytes = 8192;
  constexpr int kTurns = 6;
  std::vector<unsigned char> data(kBytes);
  constexpr Salsa20Input kInput{};
  std::vector<double> seconds(kernels.size(), std::numeric_limits<double>::infinity());
  // Turn by turn, so that a change of the clock rate affects all kernels.
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      kernels[i].xor_groups(kInput, 0, data.data(), data.data(), kBytes / kernels[i].group_bytes);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      seconds[i] = std::min(seconds[i], time.count());
    }
  }
  return kernels[static_cast<std::size_t>(std::ranges::min_element(seconds) - seconds.begin())];
}

}  // namespace

std::span<const Salsa20Kernel> salsa20_kernels() {
  static const std::vector<Salsa20Kernel> kernels = find_salsa20_kernels();
  return kernels;
}

const Salsa20Kernel& choose_salsa20_kernel(std::optional<std::string_view> forced,
                                           std::span<const Salsa20Kernel> kernels) {
  if (!forced) return fastest_salsa20_kernel(kernels);
  const std::string_view name = parse_forced(*forced);
  if (name == "sha-ni" || name == "sha2") return fastest_salsa20_kernel(kernels);
  const auto found = std::ranges::find(kernels, name, &Salsa20Kernel::name);
  if (found == kernels.end()) throw_forced_unavailable(name);
  return *found;
}

const Salsa20Kernel& salsa20_kernel() {
  static const Salsa20Kernel& kernel = choose_salsa20_kernel(forced_kernel(), salsa20_kernels());
  return kernel;
}

void salsa20_xor(const Salsa20Kernel& kernel, std::span<const unsigned char, kSalsa20KeyBytes> key,
                 std::span<const unsigned char, kSalsa20NonceBytes> nonce, std::uint64_t block,
                 std::span<const unsigned char> in, std::span<unsigned char> out) {
  TZMARK_REQUIRES(in.size() == out.size());
  if (in.empty()) return;
  Salsa20Input input;
  std::memcpy(input.key, key.data(), key.size());
  std::memcpy(input.nonce, nonce.data(), nonce.size());

  const std::size_t groups = in.size() / kernel.group_bytes;
  const std::size_t grouped = groups * kernel.group_bytes;
  const std::size_t tail = in.size() - grouped;
  if (groups != 0) kernel.xor_groups(input, block, in.data(), out.data(), groups);
  block += grouped / kSalsa20BlockBytes;
  if (tail > kMaxSodiumTailBytes) {
    std::array<unsigned char, kSalsa20MaxGroupBytes> group;
    std::memcpy(group.data(), in.data() + grouped, tail);
    std::memset(group.data() + tail, 0, kernel.group_bytes - tail);
    kernel.xor_groups(input, block, group.data(), group.data(), 1);
    std::memcpy(out.data() + grouped, group.data(), tail);
    // What follows the tail is bare key stream.
    sodium_memzero(group.data(), kernel.group_bytes);
  } else if (tail != 0) {
    xor_with_sodium(input, block, in.data() + grouped, out.data() + grouped, tail);
  }
  sodium_memzero(&input, sizeof input);
  sodium_stackzero(kWipedStackBytes);
}

}  // namespace tzmark::simd
