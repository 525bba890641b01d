// How kernels are written once, for the GPU and for the host, whose tests run the very same arithmetic.
//
// A kernel is a function of a block of threads: block.each(step) lets every thread of the block take a step, and ends
// in a barrier. A step may use what earlier steps left in shared memory, and nothing that another thread writes in the
// same step. What stands between steps is the same for every thread.
// Device memory is named by its address, and is never touched outside the bytes that a caller named.
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

// What is global memory has to be said: of an address that comes from memory the compiler does not know.

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

// For words of device memory that several blocks write.
TZMARK_DEVICE inline void atomic_xor(std::uint32_t* target, std::uint32_t with) {
#ifdef __CUDA_ARCH__
  atomicXor(target, with);
#else
  __atomic_fetch_xor(target, with, __ATOMIC_RELAXED);
#endif
}

// The lower word of (high, low) >> bits. REQUIRES: bits < 32.
TZMARK_DEVICE inline std::uint32_t shift_pair(std::uint32_t low, std::uint32_t high, unsigned bits) {
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<std::uint32_t>(((std::uint64_t{high} << 32) | low) >> bits);
#endif
}

// Sets what a block leaves in shared memory to zero, one thread's share of it. The compiler does not leave it out.
template <typename Shared>
TZMARK_DEVICE void wipe(Shared& shared, unsigned thread, unsigned threads) {
  static_assert(sizeof(Shared) % sizeof(std::uint32_t) == 0);
  volatile std::uint32_t* const words = reinterpret_cast<volatile std::uint32_t*>(&shared);
  for (unsigned i = thread; i < sizeof(Shared) / sizeof(std::uint32_t); i += threads) words[i] = 0;
}

}  // namespace tzmark::gpu
