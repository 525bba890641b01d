// Messages combined with the key stream of Salsa20, by the fastest kernel of this machine. Thread-safe.
//
// Measured on one core of a Xeon (Sapphire Rapids), GB/s over 16 KiB: libsodium 2.9, AVX2 2.9, AVX-512 6.4. libsodium
// has the same 8 lanes for AVX2, where a rotation is two shifts; in AVX-512 it is one. So a process measures all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "simd/salsa20_kernels.h"

namespace tzmark::simd {

inline constexpr std::size_t kSalsa20KeyBytes = 32;
inline constexpr std::size_t kSalsa20NonceBytes = 8;
inline constexpr std::size_t kSalsa20BlockBytes = 64;
inline constexpr std::size_t kSalsa20MaxGroupBytes = 16 * kSalsa20BlockBytes;

struct Salsa20Kernel {
  std::string_view name;  // what TZMARK_SIMD calls it
  std::size_t group_bytes = 0;
  XorSalsa20Groups xor_groups = nullptr;
};

// Returns the kernels that the CPU and the operating system support. The first is libsodium, with the name "none".
std::span<const Salsa20Kernel> salsa20_kernels();

// Returns the kernel that the value of TZMARK_SIMD asks for, or the fastest in a measurement of some 100 us if there
// is none or it is "sha-ni", which says nothing about Salsa20. Throws Error kUsage if it names no kernel, kUnavailable
// if kernels lacks it. REQUIRES: kernels is not empty.
const Salsa20Kernel& choose_salsa20_kernel(std::optional<std::string_view> forced,
                                           std::span<const Salsa20Kernel> kernels);

// Returns the kernel of this process, chosen at the first call. Throws as choose_salsa20_kernel.
const Salsa20Kernel& salsa20_kernel();

// Writes in combined with the key stream that begins at the block. in and out have the same size, and are the same
// memory or do not overlap.
void salsa20_xor(const Salsa20Kernel& kernel, std::span<const unsigned char, kSalsa20KeyBytes> key,
                 std::span<const unsigned char, kSalsa20NonceBytes> nonce, std::uint64_t block,
                 std::span<const unsigned char> in, std::span<unsigned char> out);

}  // namespace tzmark::simd
