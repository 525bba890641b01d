// CRC32 on the GPU: the arithmetic, and how ranges of device memory are divided among thread blocks and warps.
//
// The CRC of a message is the message times x^32, modulo P, as polynomials over GF(2). So each part of a range
// contributes to the CRC independently: its own CRC from zero, times a power of x; all contributions are XORed. The
// initial value of a CRC, all ones, is one more contribution.
//
// A range consists of at most 15 bytes, whole words of 16 bytes at multiples of 16, and at most 15 more bytes. Segments
// divide its words, counted from the end, so that only the first one may be smaller. One of two kernels processes the
// words of a segment: crc32_matrix.h or crc32_tables.h.
#pragma once

#include "gpu/kernel.h"

namespace tzmark::gpu {

// The lowest bit has the highest power of x, as in the CRC itself.
constexpr std::uint32_t kCrc32Polynomial = 0xEDB88320;
constexpr std::uint32_t kCrc32One = std::uint32_t{1} << 31;

constexpr unsigned kCrc32WordBytes = sizeof(Words);

TZMARK_DEVICE constexpr std::uint32_t crc32_multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  // Unrolled as a whole, the many multiplications of the kernels would be most of their code.
  TZMARK_UNROLL_BY_4 for (unsigned bit = 0; bit < 32; ++bit) {
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

struct Crc32Range {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t first;  // its first segment; that of the next range if it is empty
  std::uint32_t unused;
};

// Constants that do not depend on the ranges.
struct Crc32Shifts {
  std::uint32_t small[kCrc32WordBytes];  // x^(8 i)
  std::uint32_t power[64];               // x^(8 * 2^i)
};

constexpr Crc32Shifts make_crc32_shifts() {
  Crc32Shifts shifts{};
  for (unsigned i = 0; i < kCrc32WordBytes; ++i) shifts.small[i] = crc32_shift(i);
  shifts.power[0] = kCrc32One >> 8;
  for (unsigned i = 1; i < 64; ++i) shifts.power[i] = crc32_multiply(shifts.power[i - 1], shifts.power[i - 1]);
  return shifts;
}

// The argument of both kernels. Results are CRCs without the final inversion; they and the counter must be zero before.
struct Crc32Arguments {
  const Crc32Range* ranges;
  std::uint32_t range_count;
  std::uint32_t segment_count;
  std::uint32_t segment_bytes;  // a multiple of 16
  std::uint32_t* counter;       // of segments that were taken
  std::uint32_t* results;       // of each range
  Crc32Shifts shifts;
};

struct Crc32Bounds {
  std::uint64_t begin, words_begin, words_end, end;
};

TZMARK_DEVICE constexpr Crc32Bounds crc32_bounds(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes;
  const std::uint64_t rounded = (address + kCrc32WordBytes - 1) / kCrc32WordBytes * kCrc32WordBytes;
  const std::uint64_t words_begin = rounded < end ? rounded : end;
  const std::uint64_t last = end / kCrc32WordBytes * kCrc32WordBytes;
  return {address, words_begin, last > words_begin ? last : words_begin, end};
}

constexpr std::uint64_t crc32_segment_count(std::uint64_t address, std::uint64_t bytes, std::uint32_t segment_bytes) {
  if (bytes == 0) return 0;
  const Crc32Bounds bounds = crc32_bounds(address, bytes);
  const std::uint64_t words = bounds.words_end - bounds.words_begin;
  return words <= segment_bytes ? 1 : (words + segment_bytes - 1) / segment_bytes;
}

struct Crc32Segment {
  Crc32Bounds range;
  std::uint32_t number;  // of the range
  bool is_first, is_last;
  std::uint64_t words_begin, words_end;  // of the segment
};

TZMARK_DEVICE inline Crc32Segment crc32_segment(const Crc32Arguments& arguments, std::uint32_t number) {
  const std::uint32_t at = find_item(arguments.ranges, arguments.range_count, number);
  const Crc32Range range = arguments.ranges[at];
  const Crc32Bounds bounds = crc32_bounds(range.address, range.bytes);
  const std::uint32_t end = at + 1 == arguments.range_count ? arguments.segment_count : arguments.ranges[at + 1].first;
  const bool is_first = number == range.first;
  const std::uint64_t words_end = bounds.words_end - std::uint64_t{end - 1 - number} * arguments.segment_bytes;
  return {
      bounds,   at, is_first, number + 1 == end, is_first ? bounds.words_begin : words_end - arguments.segment_bytes,
      words_end};
}

// Returns x^(8 * bytes), which the lanes compute together.
template <typename Warp>
TZMARK_DEVICE std::uint32_t crc32_shift_by_lanes(const Warp& warp, const Crc32Shifts& shifts, std::uint64_t bytes) {
  if (bytes == 0) return kCrc32One;
  PerLane<std::uint32_t> shift;
  warp.each([&](unsigned lane) {
    shift[lane] = (bytes >> lane & 1) != 0 ? shifts.power[lane] : kCrc32One;
    if ((bytes >> (lane + 32) & 1) != 0) shift[lane] = crc32_multiply(shift[lane], shifts.power[lane + 32]);
  });
  for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) {
    PerLane<std::uint32_t> other = shift;
    warp.exchange(other, [&](unsigned lane) { return lane ^ distance; });
    warp.each([&](unsigned lane) { shift[lane] = crc32_multiply(shift[lane], other[lane]); });
  }
  return warp.of_first_lane(shift);
}

// Adds a segment to the result of its range. words: what each lane contributes to the CRC of the words from zero.
template <typename Warp>
TZMARK_DEVICE void crc32_finish(const Warp& warp, const Crc32Arguments& arguments, const Crc32Segment& segment,
                                PerLane<std::uint32_t>& words) {
  const Crc32Bounds& range = segment.range;
  const Crc32Shifts& shifts = arguments.shifts;
  const std::uint32_t after_words = crc32_shift_by_lanes(warp, shifts, range.end - segment.words_end);
  warp.each([&](unsigned lane) { words[lane] = crc32_multiply(words[lane], after_words); });
  if (segment.is_first) {
    const unsigned head = static_cast<unsigned>(range.words_begin - range.begin);
    const std::uint32_t after_head = crc32_shift_by_lanes(warp, shifts, range.end - range.words_begin);
    warp.each([&](unsigned lane) {
      std::uint32_t crc = lane == 0 ? crc32_multiply(0xFFFFFFFF, shifts.small[head]) : 0;
      if (lane < head) crc ^= crc32_multiply(load_byte(range.begin + lane), shifts.small[head - lane]);
      words[lane] ^= crc32_multiply(crc, after_head);
    });
  }
  if (segment.is_last) {
    const unsigned tail = static_cast<unsigned>(range.end - range.words_end);
    warp.each([&](unsigned lane) {
      if (lane < tail) words[lane] ^= crc32_multiply(load_byte(range.words_end + lane), shifts.small[tail - lane]);
    });
  }
  for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) {
    PerLane<std::uint32_t> other = words;
    warp.exchange(other, [&](unsigned lane) { return lane ^ distance; });
    warp.each([&](unsigned lane) { words[lane] ^= other[lane]; });
  }
  warp.each([&](unsigned lane) {
    if (lane == 0) atomic_xor(&arguments.results[segment.number], words[lane]);
  });
}

}  // namespace tzmark::gpu
