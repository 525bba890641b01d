// The common base of kernels, which compile for the GPU and for the host, where tests run the same arithmetic.
//
// A kernel is a function of a thread block: block.each(step) runs a step in every thread of the block, and ends with a
// barrier. A step may read what earlier steps left in shared memory, but nothing that another thread writes in the same
// step. Code between steps does the same in every thread.
// block.each_warp(part) runs a part in every warp, and ends with a barrier too. In it, warp.each(step) runs a step in
// every lane, without a barrier: what lanes write to shared memory is seen by others of the warp after warp.sync().
// PerLane values can be exchanged between lanes. Code between steps does the same in every lane.
// Device memory is passed as addresses, and never accessed outside the caller's ranges.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TZMARK_DEVICE __device__
#define TZMARK_UNROLL _Pragma("unroll")
#define TZMARK_UNROLL_BY_4 _Pragma("unroll 4")
#else
#define TZMARK_DEVICE
#define TZMARK_UNROLL
#define TZMARK_UNROLL_BY_4
#endif

namespace tzmark::gpu {

constexpr unsigned kLanes = 32;  // threads of a warp, and banks of shared memory

struct Words {
  std::uint32_t word[4];
};

// A value of each lane of a warp. On the GPU, a thread has its own in registers.
template <typename T>
class PerLane {
 public:
#ifdef __CUDACC__
  TZMARK_DEVICE T& operator[](unsigned) { return own_; }
  TZMARK_DEVICE const T& operator[](unsigned) const { return own_; }

 private:
  T own_;
#else
  T& operator[](unsigned lane) { return of_lane_[lane]; }
  const T& operator[](unsigned lane) const { return of_lane_[lane]; }

 private:
  T of_lane_[kLanes];
#endif
};

// Operands of warp.add_products, which multiplies matrices of bits: 16 rows by 8 columns, of 256 bits each, and adds
// the number of bits that a row and a column have in common to the count of the two. Of each lane, with g = lane / 4
// and t = lane % 4: words 0 and 2 of its Words are bits 32 t and 128 + 32 t of row g, words 1 and 3 those of row g + 8;
// the words of its BitColumn are the same bits of column g; its counts are those of row g and columns 2 t and 2 t + 1,
// then of row g + 8. As mma.sync.m16n8k256 of the PTX ISA has them in its registers.
struct BitColumn {
  std::uint32_t word[2];
};
struct BitCounts {
  std::uint32_t count[4];
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

// Modify a word of device memory that several blocks write.
TZMARK_DEVICE inline void atomic_xor(std::uint32_t* target, std::uint32_t with) {
#ifdef __CUDA_ARCH__
  atomicXor(target, with);
#else
  __atomic_fetch_xor(target, with, __ATOMIC_RELAXED);
#endif
}

// Returns what was there before.
TZMARK_DEVICE inline std::uint32_t atomic_add(std::uint32_t* target, std::uint32_t value) {
#ifdef __CUDA_ARCH__
  return atomicAdd(target, value);
#else
  return __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
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

// Returns the next number that no warp has taken. counter: zero at first.
template <typename Warp>
TZMARK_DEVICE std::uint32_t take_number(const Warp& warp, std::uint32_t* counter) {
  PerLane<std::uint32_t> number;
  warp.each([&](unsigned lane) { number[lane] = lane == 0 ? atomic_add(counter, 1) : 0; });
  return warp.of_first_lane(number);
}

// Returns the last of the items, which are in the order of their `first`, with first <= number. REQUIRES: the first one
// has.
template <typename Item>
TZMARK_DEVICE std::uint32_t find_item(const Item* items, std::uint32_t count, std::uint32_t number) {
  std::uint32_t begin = 0;
  for (std::uint32_t end = count; end - begin > 1;) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    (items[middle].first <= number ? begin : end) = middle;
  }
  return begin;
}

// Zeroes one thread's share of a block's shared memory; volatile keeps the compiler from removing it.
template <typename Shared>
TZMARK_DEVICE void wipe(Shared& shared, unsigned thread, unsigned threads) {
  static_assert(sizeof(Shared) % sizeof(std::uint32_t) == 0);
  volatile std::uint32_t* const words = reinterpret_cast<volatile std::uint32_t*>(&shared);
  for (unsigned i = thread; i < sizeof(Shared) / sizeof(std::uint32_t); i += threads) words[i] = 0;
}

}  // namespace tzmark::gpu
