// The common base of kernels, which compile for the GPU and for the host, where tests run the same arithmetic.
//
// A kernel is a function of a thread block: block.each(step) runs a step in every thread of the block, and ends with a
// barrier. A step may read what earlier steps left in shared memory, but nothing that another thread writes in the same
// step. Code between steps does the same in every thread.
// Device memory is passed as addresses, and never accessed outside the caller's ranges.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TZMARK_DEVICE __device__
#define TZMARK_UNROLL _Pragma("unroll")
#else
#define TZMARK_DEVICE
#define TZMARK_UNROLL
#endif

namespace tzmark::gpu {

constexpr unsigned kLanes = 32;  // threads of a warp, and banks of shared memory

struct Words {
  std::uint32_t word[4];
};

TZMARK_DEVICE inline std::uint8_t load_byte(std::uint64_t address) {
  return *reinterpret_cast<const std::uint8_t*>(address);
}

// The compiler does not know that an address from memory refers to global memory, so the instructions say it.

// REQUIRES: address is a multiple of 4.
TZMARK_DEVICE inline std::uint32_t load_word(std::uint64_t address) {
  std::uint32_t word;
#ifdef __CUDA_ARCH__
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
#else
  std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
#endif
  return word;
}

// REQUIRES: address is a multiple of 16.
TZMARK_DEVICE inline Words load_words(std::uint64_t address) {
  Words words;
#ifdef __CUDA_ARCH__
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
               : "l"(address)
               : "memory");
#else
  std::memcpy(&words, reinterpret_cast<const void*>(address), sizeof words);
#endif
  return words;
}

// REQUIRES: address is a multiple of 4.
TZMARK_DEVICE inline void store_word(std::uint64_t address, std::uint32_t word) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.u32 [%0], %1;" : : "l"(address), "r"(word) : "memory");
#else
  std::memcpy(reinterpret_cast<void*>(address), &word, sizeof word);
#endif
}

TZMARK_DEVICE inline void xor_byte(std::uint64_t address, std::uint8_t with) {
  *reinterpret_cast<std::uint8_t*>(address) ^= with;
}

// Modifies a word of device memory that several blocks write.
TZMARK_DEVICE inline void atomic_xor(std::uint32_t* target, std::uint32_t with) {
#ifdef __CUDA_ARCH__
  atomicXor(target, with);
#else
  __atomic_fetch_xor(target, with, __ATOMIC_RELAXED);
#endif
}

// Returns the lower word of (high, low) >> bits. REQUIRES: bits < 32.
TZMARK_DEVICE inline std::uint32_t shift_pair(std::uint32_t low, std::uint32_t high, unsigned bits) {
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<std::uint32_t>(((std::uint64_t{high} << 32) | low) >> bits);
#endif
}

// Zeroes one thread's share of a block's shared memory; volatile keeps the compiler from removing it.
template <typename Shared>
TZMARK_DEVICE void wipe(Shared& shared, unsigned thread, unsigned threads) {
  static_assert(sizeof(Shared) % sizeof(std::uint32_t) == 0);
  volatile std::uint32_t* const words = reinterpret_cast<volatile std::uint32_t*>(&shared);
  for (unsigned i = thread; i < sizeof(Shared) / sizeof(std::uint32_t); i += threads) words[i] = 0;
}

}  // namespace tzmark::gpu
