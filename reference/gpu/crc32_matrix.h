// The kernel that computes CRC32 by multiplying matrices of bits: for GPUs that have an instruction for it.
//
// Each bit of a word contributes a constant to the CRC, which depends on its distance from the end. So the CRC is a
// product of a row of message bits with a matrix, modulo 2: warp.add_products counts common bits, whose lowest bit is
// the product. A warp takes a tile of 32 KiB at a time, 512 bytes per step: the 16 bytes that a lane loads are the
// operand as they are. Rows are the 8 units of 64 bytes in each 512, even and odd words of 4 bytes apart; they need the
// same matrix, but for a power of x that is multiplied in at the end. The CRC of a tile's rows is one more operand of
// the next tile, so that segments have any number of tiles.
#pragma once

#include "gpu/crc32.h"

namespace tzmark::gpu {

constexpr unsigned kCrc32MatrixThreads = 512;
constexpr unsigned kCrc32StepBytes = kLanes * kCrc32WordBytes;
constexpr unsigned kCrc32TileSteps = 64;
constexpr unsigned kCrc32TileBytes = kCrc32TileSteps * kCrc32StepBytes;
constexpr unsigned kCrc32MatrixSegmentBytes = 4 * kCrc32TileBytes;
constexpr unsigned kCrc32UnitBytes = 64;
constexpr unsigned kCrc32Products = 4;  // of 8 columns, for the 32 bits of a CRC

// Operands of all steps: of product n, words 0 and 1 of its BitColumn are words 2 (n % 2) and 2 (n % 2) + 1.
struct Crc32Matrix {
  Words step[kCrc32TileSteps][kCrc32Products / 2][kLanes];
  Words tile[kLanes];  // for the CRC of the tiles before: word n is word 0 of the BitColumn of product n
};

// Calls store(n, word) for each product n with word `lane` of the operand, whose bits are those of a message word
// (the lowest one first) at the given distance from the end.
template <typename Store>
void for_each_crc32_operand(std::uint64_t bytes_after, unsigned column, Store&& store) {
  std::uint32_t words[kCrc32Products] = {};
  // The highest bit of a word is x^0.
  std::uint32_t contribution = crc32_shift(bytes_after + sizeof(std::uint32_t));
  for (unsigned bit = 32; bit-- > 0;) {
    for (unsigned n = 0; n < kCrc32Products; ++n) words[n] |= (contribution >> (8 * n + column) & 1) << bit;
    contribution = (contribution >> 1) ^ (kCrc32Polynomial & (0 - (contribution & 1)));
  }
  for (unsigned n = 0; n < kCrc32Products; ++n) store(n, words[n]);
}

inline void make_crc32_matrix(Crc32Matrix& matrix) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const unsigned column = lane / 4, t = lane % 4;
    for (unsigned step = 0; step < kCrc32TileSteps; ++step) {
      for (unsigned half = 0; half < 2; ++half) {
        // Of the odd words of the last unit.
        const unsigned in_unit = kCrc32UnitBytes - 16 * t - 8 * half - 8;
        for_each_crc32_operand(
            (kCrc32TileSteps - 1 - step) * kCrc32StepBytes + in_unit, column,
            [&](unsigned n, std::uint32_t word) { matrix.step[step][n / 2][lane].word[2 * (n % 2) + half] = word; });
      }
    }
    // A CRC is a word whose x^32 has been multiplied in.
    for_each_crc32_operand(kCrc32TileBytes - sizeof(std::uint32_t), column,
                           [&](unsigned n, std::uint32_t word) { matrix.tile[lane].word[n] = word; });
  }
}

struct Crc32MatrixArguments {
  Crc32Arguments common;
  std::uint64_t matrix;         // the address of a Crc32Matrix
  std::uint32_t row_shift[16];  // of the bytes after the row's words in a step
};

constexpr void make_crc32_row_shifts(std::uint32_t (&row_shift)[16]) {
  for (unsigned unit = 0; unit < 8; ++unit) {
    const unsigned after = kCrc32StepBytes - kCrc32UnitBytes * (unit + 1);
    row_shift[unit] = crc32_shift(after + sizeof(std::uint32_t));
    row_shift[unit + 8] = crc32_shift(after);
  }
}

using Crc32MatrixShared = Crc32Matrix;

// Adds the products of a tile. skipped: words before the segment, at the tile's begin.
template <bool kIsWhole, typename Warp>
TZMARK_DEVICE void crc32_add_tile(const Warp& warp, const Crc32Matrix& matrix, std::uint64_t tile, unsigned skipped,
                                  PerLane<BitCounts> (&counts)[kCrc32Products]) {
  constexpr unsigned kAhead = 16;  // loads in flight
  for (unsigned begin = kIsWhole ? 0 : skipped / kLanes / kAhead * kAhead; begin < kCrc32TileSteps; begin += kAhead) {
    PerLane<Words> rows[kAhead];
    warp.each([&](unsigned lane) {
      TZMARK_UNROLL for (unsigned i = 0; i < kAhead; ++i) {
        const unsigned number = (begin + i) * kLanes + lane;
        rows[i][lane] =
            kIsWhole || number >= skipped ? load_words(tile + std::uint64_t{number} * kCrc32WordBytes) : Words{};
      }
    });
    TZMARK_UNROLL for (unsigned i = 0; i < kAhead; ++i) {
      PerLane<BitColumn> columns[kCrc32Products];
      warp.each([&](unsigned lane) {
        TZMARK_UNROLL for (unsigned pair = 0; pair < kCrc32Products / 2; ++pair) {
          const Words words = matrix.step[begin + i][pair][lane];
          columns[2 * pair][lane] = {{words.word[0], words.word[1]}};
          columns[2 * pair + 1][lane] = {{words.word[2], words.word[3]}};
        }
      });
      TZMARK_UNROLL for (unsigned n = 0; n < kCrc32Products; ++n) warp.add_products(counts[n], rows[i], columns[n]);
    }
  }
}

// Returns in each lane the CRC of row lane / 4 (half 0), or of row lane / 4 + 8.
template <typename Warp>
TZMARK_DEVICE PerLane<std::uint32_t> crc32_of_rows(const Warp& warp, const PerLane<BitCounts> (&counts)[kCrc32Products],
                                                   unsigned half) {
  PerLane<std::uint32_t> crc;
  warp.each([&](unsigned lane) {
    std::uint32_t bits = 0;
    TZMARK_UNROLL for (unsigned n = 0; n < kCrc32Products; ++n) {
      const BitCounts& count = counts[n][lane];
      bits |= (count.count[2 * half] & 1) << (8 * n) | (count.count[2 * half + 1] & 1) << (8 * n + 1);
    }
    crc[lane] = bits << (2 * (lane % 4));
  });
  TZMARK_UNROLL for (unsigned distance = 1; distance < 4; distance *= 2) {
    PerLane<std::uint32_t> other = crc;
    warp.exchange(other, [&](unsigned lane) { return lane ^ distance; });
    warp.each([&](unsigned lane) { crc[lane] |= other[lane]; });
  }
  return crc;
}

// Returns what each lane contributes to the CRC of the words.
template <typename Warp>
TZMARK_DEVICE PerLane<std::uint32_t> crc32_of_words(const Warp& warp, const Crc32Matrix& matrix,
                                                    const std::uint32_t (&row_shift)[16], std::uint64_t begin,
                                                    std::uint64_t end) {
  PerLane<std::uint32_t> upper, lower;
  warp.each([&](unsigned lane) { upper[lane] = lower[lane] = 0; });
  const unsigned tiles = static_cast<unsigned>((end - begin + kCrc32TileBytes - 1) / kCrc32TileBytes);
  const unsigned skipped =
      static_cast<unsigned>((tiles * std::uint64_t{kCrc32TileBytes} - (end - begin))) / kCrc32WordBytes;
  for (unsigned number = 0; number < tiles; ++number) {
    PerLane<BitCounts> counts[kCrc32Products];
    warp.each([&](unsigned lane) {
      TZMARK_UNROLL for (unsigned n = 0; n < kCrc32Products; ++n) counts[n][lane] = BitCounts{};
    });
    const std::uint64_t tile = end - std::uint64_t{tiles - number} * kCrc32TileBytes;
    if (number == 0 && skipped != 0) {
      crc32_add_tile<false>(warp, matrix, tile, skipped, counts);
    } else {
      crc32_add_tile<true>(warp, matrix, tile, 0, counts);
    }
    // Each row has one word more: its CRC until now.
    PerLane<Words> before;
    warp.each([&](unsigned lane) { before[lane] = lane % 4 == 0 ? Words{{upper[lane], lower[lane], 0, 0}} : Words{}; });
    TZMARK_UNROLL for (unsigned n = 0; n < kCrc32Products; ++n) {
      PerLane<BitColumn> column;
      warp.each([&](unsigned lane) { column[lane] = {{matrix.tile[lane].word[n], 0}}; });
      warp.add_products(counts[n], before, column);
    }
    upper = crc32_of_rows(warp, counts, 0);
    lower = crc32_of_rows(warp, counts, 1);
  }
  warp.each([&](unsigned lane) {
    const unsigned row = lane / 4, t = lane % 4;
    upper[lane] = t < 2 ? crc32_multiply(t == 0 ? upper[lane] : lower[lane], row_shift[row + 8 * t]) : 0;
  });
  return upper;
}

template <typename Block>
TZMARK_DEVICE void crc32_matrix_kernel(const Block& block, Crc32MatrixShared& shared,
                                       const Crc32MatrixArguments& arguments) {
  block.each([&](unsigned thread) {
    Words* const words = reinterpret_cast<Words*>(&shared);
    for (unsigned i = thread; i < sizeof(Crc32Matrix) / sizeof(Words); i += kCrc32MatrixThreads) {
      words[i] = load_words(arguments.matrix + std::uint64_t{i} * sizeof(Words));
    }
  });
  block.each_warp([&](const auto& warp, unsigned) {
    for (;;) {
      const std::uint32_t number = take_number(warp, arguments.common.counter);
      if (number >= arguments.common.segment_count) return;
      const Crc32Segment segment = crc32_segment(arguments.common, number);
      PerLane<std::uint32_t> crc =
          crc32_of_words(warp, shared, arguments.row_shift, segment.words_begin, segment.words_end);
      crc32_finish(warp, arguments.common, segment, crc);
    }
  });
}

}  // namespace tzmark::gpu
