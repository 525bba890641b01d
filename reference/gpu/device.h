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

#ifdef __CUDA_ARCH__
// That it is global memory saves the GPU the question.
template <typename Value>
__device__ const Value* device_pointer(std::uint64_t address) {
  const Value* const pointer = reinterpret_cast<const Value*>(address);
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}
#endif

TZMARK_DEVICE inline std::uint8_t load_byte(std::uint64_t address) {
  return *reinterpret_cast<const std::uint8_t*>(address);
}

// REQUIRES: address is a multiple of 4.
TZMARK_DEVICE inline std::uint32_t load_word(std::uint64_t address) {
#ifdef __CUDA_ARCH__
  return *device_pointer<std::uint32_t>(address);
#else
  std::uint32_t word;
  std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
  return word;
#endif
}

// REQUIRES: address is a multiple of 16.
TZMARK_DEVICE inline Words load_words(std::uint64_t address) {
#ifdef __CUDA_ARCH__
  const uint4 words = *device_pointer<uint4>(address);
  return {{words.x, words.y, words.z, words.w}};
#else
  Words words;
  std::memcpy(&words, reinterpret_cast<const void*>(address), sizeof words);
  return words;
#endif
}

TZMARK_DEVICE inline void xor_byte(std::uint64_t address, std::uint8_t with) {
  *reinterpret_cast<std::uint8_t*>(address) ^= with;
}

// REQUIRES: address is a multiple of 4.
TZMARK_DEVICE inline void xor_word(std::uint64_t address, std::uint32_t with) {
  const std::uint32_t word = load_word(address) ^ with;
#ifdef __CUDA_ARCH__
  *const_cast<std::uint32_t*>(device_pointer<std::uint32_t>(address)) = word;
#else
  std::memcpy(reinterpret_cast<void*>(address), &word, sizeof word);
#endif
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
