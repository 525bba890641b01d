// The kernel that computes CRC32 by lookups in tables: for GPUs that do not multiply matrices of bits.
//
// Thread t of T processes every T-th word of a segment: sum = sum * x^(128 T) + word, on its four parts of 4 bytes
// each. Leading zeros, which do not change the CRC, extend the segment to a multiple of T words, so that the power of x
// that thread t multiplies by at the end depends on t alone.
//
// The following rates are computed from instruction counts, not measured.
// Multiplying by x^(128 T) limits the speed: six lookups in tables in shared memory per 4 bytes. Each lane of a warp
// has a copy of the tables in its own bank, so a lookup of a warp takes one cycle of an SM: 21 bytes per cycle, 4.9
// TB/s with 132 SMs at 1.75 GHz. The shifts, masks and XORs of the lookups are 15 integer instructions, of which an SM
// executes 2 per cycle: 17 bytes per cycle, 3.9 TB/s.
#pragma once

#include "gpu/crc32.h"

namespace tzmark::gpu {

constexpr unsigned kCrc32TablesThreads = 512;
constexpr unsigned kCrc32RoundBytes = kCrc32TablesThreads * kCrc32WordBytes;

// The 32 bits of a factor are looked up in fields of 5, 5, 5, 5, 6 and 6 bits, whose tables take 32 KiB per warp.
// Fields of 4 bits would need two more lookups, fields of 7 bits more than the 48 KiB that every GPU has.
constexpr unsigned kCrc32Fields = 6;
constexpr unsigned kCrc32TableEntries = 4 * 32 + 2 * 64;
TZMARK_DEVICE constexpr unsigned crc32_field_bits(unsigned field) { return field < 4 ? 5 : 6; }
TZMARK_DEVICE constexpr unsigned crc32_field_at(unsigned field) { return field < 4 ? 5 * field : 20 + 6 * (field - 4); }
TZMARK_DEVICE constexpr unsigned crc32_field_table(unsigned field) {
  return field < 4 ? 32 * field : 128 + 64 * (field - 4);
}

struct Crc32Tables {
  std::uint32_t table[kCrc32TableEntries];  // each field's values times x^(128 T)
  std::uint32_t lane_shift[9];              // x^(128 * 2^i)
};
static_assert(kCrc32TablesThreads == 1 << 9);

constexpr Crc32Tables make_crc32_tables() {
  Crc32Tables tables{};
  const std::uint32_t stride = crc32_shift(kCrc32RoundBytes);
  for (unsigned field = 0; field < kCrc32Fields; ++field) {
    for (std::uint32_t value = 0; value < 1U << crc32_field_bits(field); ++value) {
      tables.table[crc32_field_table(field) + value] = crc32_multiply(value << crc32_field_at(field), stride);
    }
  }
  for (unsigned i = 0; i < 9; ++i) tables.lane_shift[i] = crc32_shift(std::uint64_t{kCrc32WordBytes} << i);
  return tables;
}

struct Crc32TablesArguments {
  Crc32Arguments common;
  Crc32Tables tables;
};

struct Crc32TablesShared {
  std::uint32_t table[kCrc32TableEntries * kLanes];  // entry i of lane l at i * kLanes + l
  std::uint32_t shift[kCrc32TablesThreads];          // of thread t: x^(128 (T - 1 - t))
  std::uint32_t share[kCrc32TablesThreads];
  std::uint32_t number;  // of the segment
};

// Returns value * x^(128 T). lane_offset: the byte offset of the lane's bank.
TZMARK_DEVICE inline std::uint32_t crc32_next_round(const Crc32TablesShared& shared, std::uint32_t value,
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

TZMARK_DEVICE inline void crc32_add(const Crc32TablesShared& shared, std::uint32_t (&sum)[4], const Words& words,
                                    unsigned lane_offset) {
  TZMARK_UNROLL for (unsigned i = 0; i < 4; ++i) sum[i] = crc32_next_round(shared, sum[i], lane_offset) ^ words.word[i];
}

// Returns one thread's contribution to the CRC of the words from begin to end.
TZMARK_DEVICE inline std::uint32_t crc32_share(const Crc32TablesShared& shared, const Crc32Shifts& shifts,
                                               std::uint64_t begin, std::uint64_t end, unsigned thread) {
  const unsigned lane_offset = thread % kLanes * static_cast<unsigned>(sizeof(std::uint32_t));
  const std::uint32_t count = static_cast<std::uint32_t>((end - begin) / kCrc32WordBytes);
  const std::uint32_t rounds = (count + kCrc32TablesThreads - 1) / kCrc32TablesThreads;
  const std::uint32_t missing = rounds * kCrc32TablesThreads - count;
  // The address of the thread's word in round 0, if it has one.
  const std::uint64_t address = begin + (std::uint64_t{thread} - missing) * kCrc32WordBytes;
  std::uint32_t sum[4] = {};
  std::uint32_t round = thread < missing ? 1 : 0;
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
  std::uint32_t share = crc32_multiply(sum[0], shifts.small[4]) ^ sum[1];
  share = crc32_multiply(share, shifts.small[4]) ^ sum[2];
  share = crc32_multiply(share, shifts.small[4]) ^ sum[3];
  // The last part is followed by nothing: its own x^32.
  return crc32_multiply(crc32_multiply(share, shifts.small[4]), shared.shift[thread]);
}

template <typename Block>
TZMARK_DEVICE void crc32_tables_kernel(const Block& block, Crc32TablesShared& shared,
                                       const Crc32TablesArguments& arguments) {
  block.each([&](unsigned thread) {
    for (unsigned i = thread; i < kCrc32TableEntries * kLanes; i += kCrc32TablesThreads) {
      shared.table[i] = arguments.tables.table[i / kLanes];
    }
    std::uint32_t shift = kCrc32One;
    for (unsigned i = 0; i < 9; ++i) {
      if (((kCrc32TablesThreads - 1 - thread) >> i & 1) != 0) {
        shift = crc32_multiply(shift, arguments.tables.lane_shift[i]);
      }
    }
    shared.shift[thread] = shift;
  });
  for (;;) {
    block.each([&](unsigned thread) {
      if (thread == 0) shared.number = atomic_add(arguments.common.counter, 1);
    });
    const std::uint32_t number = shared.number;
    if (number >= arguments.common.segment_count) return;
    const Crc32Segment segment = crc32_segment(arguments.common, number);
    block.each([&](unsigned thread) {
      shared.share[thread] =
          crc32_share(shared, arguments.common.shifts, segment.words_begin, segment.words_end, thread);
    });
    block.each_warp([&](const auto& warp, unsigned warp_number) {
      if (warp_number != 0) return;
      PerLane<std::uint32_t> crc;
      warp.each([&](unsigned lane) {
        crc[lane] = 0;
        for (unsigned i = lane; i < kCrc32TablesThreads; i += kLanes) crc[lane] ^= shared.share[i];
      });
      crc32_finish(warp, arguments.common, segment, crc);
    });
  }
}

}  // namespace tzmark::gpu
