// The kernel that computes the CRC32 of many segments of device memory in parallel.
//
// The CRC of a message is the message times x^32, modulo P, as polynomials over GF(2). So each segment contributes to
// the CRC of its range independently: its own CRC times a power of x; all contributions are XORed. In a segment, thread
// t of T processes every T-th word of 16 bytes: sum = sum * x^(128 T) + word, on its four parts of 4 bytes each.
// Leading zeros, which do not change the CRC, extend the segment to a multiple of T words, so that the power of x that
// thread t multiplies by at the end depends on t alone.
//
// The following rates are computed from instruction counts, not measured on a GPU.
// Multiplying by x^(128 T) limits the speed: six lookups in tables in shared memory per 4 bytes. Each lane of a warp
// has a copy of the tables in its own bank, so a lookup of a warp takes one cycle of an SM: 21 bytes per cycle, 4.9
// TB/s with 132 SMs at 1.75 GHz. The shifts, masks and XORs of the lookups are 15 integer instructions, of which an SM
// executes 2 per cycle: 17 bytes per cycle, 3.9 TB/s. Memory has 3.3 TB/s (H100) or 4.8 TB/s (H200).
#pragma once

#include "gpu/kernel.h"

namespace tzmark::gpu {

// The lowest bit has the highest power of x, as in the CRC itself.
constexpr std::uint32_t kCrc32Polynomial = 0xEDB88320;
constexpr std::uint32_t kCrc32One = std::uint32_t{1} << 31;
// A CRC begins with all ones. This word produces that state from zero.
constexpr std::uint32_t kCrc32Prefix = 0x9226F562;
constexpr unsigned kCrc32PrefixBytes = 4;

constexpr unsigned kCrc32Threads = 512;
constexpr unsigned kCrc32WordBytes = sizeof(Words);
constexpr unsigned kCrc32RoundBytes = kCrc32Threads * kCrc32WordBytes;

// The 32 bits of a factor are looked up in fields of 5, 5, 5, 5, 6 and 6 bits, whose tables take 32 KiB per warp.
// Fields of 4 bits would need two more lookups, fields of 7 bits more than the 48 KiB that every GPU has.
constexpr unsigned kCrc32Fields = 6;
constexpr unsigned kCrc32TableEntries = 4 * 32 + 2 * 64;
TZMARK_DEVICE constexpr unsigned crc32_field_bits(unsigned field) { return field < 4 ? 5 : 6; }
TZMARK_DEVICE constexpr unsigned crc32_field_at(unsigned field) { return field < 4 ? 5 * field : 20 + 6 * (field - 4); }
TZMARK_DEVICE constexpr unsigned crc32_field_table(unsigned field) {
  return field < 4 ? 32 * field : 128 + 64 * (field - 4);
}

TZMARK_DEVICE constexpr std::uint32_t crc32_multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (unsigned bit = 0; bit < 32; ++bit) {
    product ^= b & (0 - (a >> 31));
    a <<= 1;
    b = (b >> 1) ^ (kCrc32Polynomial & (0 - (b & 1)));
  }
  return product;
}

// Returns x^(8 * bytes), by which appending that many bytes multiplies a CRC.
TZMARK_DEVICE constexpr std::uint32_t crc32_shift(std::uint64_t bytes) {
  std::uint32_t square = kCrc32One >> 8, shift = kCrc32One;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) shift = crc32_multiply(shift, square);
    square = crc32_multiply(square, square);
  }
  return shift;
}

struct Crc32Segment {
  std::uint64_t address;
  std::uint32_t bytes;
  std::uint32_t range;   // the index of its range
  std::uint32_t shift;   // crc32_shift of the bytes that follow in the range
  std::uint32_t prefix;  // kCrc32Prefix for the first segment of a range, otherwise 0
};

// Constants that do not depend on the ranges.
struct Crc32Constants {
  std::uint32_t table[kCrc32TableEntries];  // each field's values times x^(128 T)
  std::uint32_t shift[16];                  // x^(8 i)
  std::uint32_t lane_shift[9];              // x^(128 * 2^i)
};
static_assert(kCrc32Threads == 1 << 9);

constexpr Crc32Constants make_crc32_constants() {
  Crc32Constants constants{};
  const std::uint32_t stride = crc32_shift(kCrc32RoundBytes);
  for (unsigned field = 0; field < kCrc32Fields; ++field) {
    for (std::uint32_t value = 0; value < 1U << crc32_field_bits(field); ++value) {
      constants.table[crc32_field_table(field) + value] = crc32_multiply(value << crc32_field_at(field), stride);
    }
  }
  for (unsigned i = 0; i < 16; ++i) constants.shift[i] = crc32_shift(i);
  for (unsigned i = 0; i < 9; ++i) constants.lane_shift[i] = crc32_shift(std::uint64_t{kCrc32WordBytes} << i);
  return constants;
}

// The kernel's argument. Results are CRCs without the final inversion, and must be zero before.
struct Crc32Arguments {
  const Crc32Segment* segments;
  std::uint64_t segment_count;
  std::uint32_t* results;
  Crc32Constants constants;
};

struct Crc32Shared {
  std::uint32_t table[kCrc32TableEntries * kLanes];  // entry i of lane l at i * kLanes + l
  std::uint32_t shift[kCrc32Threads];                // of thread t: x^(128 (T - 1 - t))
  std::uint32_t share[kCrc32Threads];
  std::uint32_t sum[kLanes];
  std::uint32_t tail[kCrc32WordBytes];
};

// Returns value * x^(128 T). lane_offset: the byte offset of the lane's bank.
TZMARK_DEVICE inline std::uint32_t crc32_next_round(const Crc32Shared& shared, std::uint32_t value,
                                                    unsigned lane_offset) {
  const char* const tables = reinterpret_cast<const char*>(shared.table);
  constexpr unsigned kEntryBytes = kLanes * sizeof(std::uint32_t), kEntryBits = 7;
  static_assert(kEntryBytes == 1 << kEntryBits);
  std::uint32_t product = 0;
  TZMARK_UNROLL for (unsigned field = 0; field < kCrc32Fields; ++field) {
    // Computes the field's value times kEntryBytes with one shift and one mask.
    const unsigned at = crc32_field_at(field);
    const std::uint32_t shifted = at < kEntryBits ? value << (kEntryBits - at) : value >> (at - kEntryBits);
    const std::uint32_t offset = shifted & (((1U << crc32_field_bits(field)) - 1) << kEntryBits);
    product ^= *reinterpret_cast<const std::uint32_t*>(tables + crc32_field_table(field) * kEntryBytes +
                                                       (offset | lane_offset));
  }
  return product;
}

TZMARK_DEVICE inline void crc32_add(const Crc32Shared& shared, std::uint32_t (&sum)[4], const Words& words,
                                    unsigned lane_offset) {
  TZMARK_UNROLL for (unsigned i = 0; i < 4; ++i) sum[i] = crc32_next_round(shared, sum[i], lane_offset) ^ words.word[i];
}

// A segment as words. Bytes before the segment in the first words are the prefix and zeros.
struct Crc32Words {
  std::uint64_t begin;  // of the segment
  std::uint64_t first;  // address of the first word
  std::uint32_t count;
  std::uint32_t prefix;
  std::uint32_t tail;  // bytes after the last whole word
};

TZMARK_DEVICE inline Crc32Words crc32_words(const Crc32Segment& segment) {
  const std::uint64_t begin = segment.address, end = begin + segment.bytes;
  const std::uint64_t first = (begin - kCrc32PrefixBytes) / kCrc32WordBytes * kCrc32WordBytes;
  return {begin, first, static_cast<std::uint32_t>((end - first) / kCrc32WordBytes), segment.prefix,
          static_cast<std::uint32_t>((end - first) % kCrc32WordBytes)};
}

// REQUIRES: the byte is before the segment's end.
TZMARK_DEVICE inline std::uint8_t crc32_byte(const Crc32Words& words, std::uint64_t address) {
  if (address >= words.begin) return load_byte(address);
  const std::uint64_t before = words.begin - address;
  return before > kCrc32PrefixBytes
             ? std::uint8_t{0}
             : static_cast<std::uint8_t>(words.prefix >> (8 * (kCrc32PrefixBytes - static_cast<unsigned>(before))));
}

TZMARK_DEVICE inline Words crc32_word(const Crc32Words& words, std::uint32_t number) {
  const std::uint64_t address = words.first + std::uint64_t{number} * kCrc32WordBytes;
  if (address >= words.begin) return load_words(address);
  Words word{};
  TZMARK_UNROLL for (unsigned i = 0; i < kCrc32WordBytes; ++i) {
    word.word[i / 4] |= std::uint32_t{crc32_byte(words, address + i)} << (8 * (i % 4));
  }
  return word;
}

// Returns one thread's contribution: that of its words, as if its last word were the segment's last and x^32 were 1.
TZMARK_DEVICE inline std::uint32_t crc32_share(const Crc32Shared& shared, const Crc32Constants& constants,
                                               const Crc32Words& words, unsigned thread) {
  const unsigned lane_offset = thread % kLanes * static_cast<unsigned>(sizeof(std::uint32_t));
  const std::uint32_t rounds = (words.count + kCrc32Threads - 1) / kCrc32Threads;
  const std::uint32_t missing = rounds * kCrc32Threads - words.count;
  std::uint32_t sum[4] = {};
  std::uint32_t round = 0;
  // Only the first two words can be edges, which a thread processes in its first two rounds.
  for (; round < rounds && round < 2; ++round) {
    const std::uint32_t number = round * kCrc32Threads + thread;
    if (number >= missing) crc32_add(shared, sum, crc32_word(words, number - missing), lane_offset);
  }
  // The address of the thread's word in round 0, if it has one.
  const std::uint64_t address = words.first + (std::uint64_t{thread} - missing) * kCrc32WordBytes;
  constexpr unsigned kAhead = 4;  // loads in flight
  for (; round + kAhead <= rounds; round += kAhead) {
    Words next[kAhead];
    TZMARK_UNROLL for (unsigned i = 0; i < kAhead; ++i) {
      next[i] = load_words(address + std::uint64_t{round + i} * kCrc32RoundBytes);
    }
    TZMARK_UNROLL for (unsigned i = 0; i < kAhead; ++i) crc32_add(shared, sum, next[i], lane_offset);
  }
  for (; round < rounds; ++round) {
    crc32_add(shared, sum, load_words(address + std::uint64_t{round} * kCrc32RoundBytes), lane_offset);
  }
  std::uint32_t share = sum[0];
  for (unsigned i = 1; i < 4; ++i) share = crc32_multiply(share, constants.shift[4]) ^ sum[i];
  return crc32_multiply(share, shared.shift[thread]);
}

template <typename Block>
TZMARK_DEVICE void crc32_kernel(const Block& block, Crc32Shared& shared, const Crc32Arguments& arguments) {
  const Crc32Constants& constants = arguments.constants;
  block.each([&](unsigned thread) {
    for (unsigned i = thread; i < kCrc32TableEntries * kLanes; i += kCrc32Threads) {
      shared.table[i] = constants.table[i / kLanes];
    }
    std::uint32_t shift = kCrc32One;
    for (unsigned i = 0; i < 9; ++i) {
      if (((kCrc32Threads - 1 - thread) >> i & 1) != 0) shift = crc32_multiply(shift, constants.lane_shift[i]);
    }
    shared.shift[thread] = shift;
  });
  for (std::uint64_t number = block.number(); number < arguments.segment_count; number += block.count()) {
    const Crc32Segment segment = arguments.segments[number];
    const Crc32Words words = crc32_words(segment);
    block.each([&](unsigned thread) {
      shared.share[thread] = crc32_share(shared, constants, words, thread);
      if (thread < kCrc32WordBytes) {
        shared.tail[thread] =
            thread < words.tail
                ? crc32_multiply(crc32_byte(words, words.first + std::uint64_t{words.count} * kCrc32WordBytes + thread),
                                 constants.shift[words.tail - thread])
                : 0;
      }
    });
    block.each([&](unsigned thread) {
      if (thread >= kLanes) return;
      std::uint32_t sum = 0;
      for (unsigned i = thread; i < kCrc32Threads; i += kLanes) sum ^= shared.share[i];
      shared.sum[thread] = sum;
    });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      std::uint32_t sum = 0;
      for (unsigned i = 0; i < kLanes; ++i) sum ^= shared.sum[i];
      sum = crc32_multiply(crc32_multiply(sum, constants.shift[4]), constants.shift[words.tail]);
      for (unsigned i = 0; i < kCrc32WordBytes; ++i) sum ^= shared.tail[i];
      atomic_xor(&arguments.results[segment.range], crc32_multiply(sum, segment.shift));
    });
  }
}

}  // namespace tzmark::gpu
