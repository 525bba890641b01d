// The kernels that decrypt XSalsa20-Poly1305 messages in place, launched one after the other:
//   keys      a warp per message: the Salsa20 key, the MAC key, and the powers of r
//   macs      a warp per chunk of 32 KiB: its share of the MAC
//   verdicts  a warp per message: adds up the shares, and compares the MAC
//   open      a warp per chunk, if the message's MAC is correct: XORs the key stream
//
// So a few large messages keep all of a GPU busy. In a chunk, lane l of 32 processes every 32nd block of 16 bytes, four
// at a time: sum = sum * r^128 + block * r^96 + block * r^64 + block * r^32 + block, with a single carry, and
// multiplies by r^(32 - l) at the end. Chunks of the MAC are counted from the end of the message, so that all powers
// depend on the lane alone. Key stream is computed into shared memory, a block of 64 bytes per lane, and XORed in the
// order of the message's bytes, so that adjacent lanes access adjacent words.
#pragma once

#include "gpu/poly1305.h"
#include "gpu/salsa20.h"

namespace tzmark::gpu {

constexpr unsigned kSecretboxThreads = 256;
constexpr unsigned kSecretboxWarps = kSecretboxThreads / kLanes;
constexpr unsigned kSecretboxKeyBytes = 32;
// The first half of the key stream's first block is the MAC key; the message starts at the second half.
constexpr unsigned kSecretboxStreamBegin = 32;
constexpr unsigned kSecretboxChunkBytes = 32 << 10;
constexpr std::uint32_t kSecretboxOpened = 1, kSecretboxWrongMac = 2;

struct SecretboxMessage {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t nonce[6];
  std::uint32_t mac[4];
  std::uint32_t first;  // its first chunk
  std::uint32_t unused;
};

// Chunks of the key stream. Those of the MAC may be one less; then the first one contributes nothing.
TZMARK_DEVICE constexpr std::uint64_t secretbox_chunk_count(std::uint64_t bytes) {
  return (kSecretboxStreamBegin + bytes + kSecretboxChunkBytes - 1) / kSecretboxChunkBytes;
}

// What is derived from the key and a nonce, in device memory that is wiped.
struct SecretboxKeys {
  std::uint32_t subkey[8];
  std::uint32_t mac_key[4];  // its second half
  Limbs power[kLanes];       // r^(i + 1)
  Limbs power_64, power_96, power_128, power_of_chunk;
};

// The argument of all kernels. A result is one of the two above.
struct SecretboxArguments {
  const std::uint32_t* key;  // 8 words of device memory, so that they can be wiped
  const SecretboxMessage* messages;
  std::uint32_t message_count;
  std::uint32_t chunk_count;
  std::uint32_t* results;  // of each message
  SecretboxKeys* keys;     // of each message
  Limbs* shares;           // of each chunk
  std::uint32_t salsa20_factor;
};

constexpr unsigned kSecretboxTileBytes = kLanes * kSalsa20Bytes;

struct SecretboxShared {
  // Words of the key stream, with padding after every 16, so that the lanes, which write 16 each, use all banks.
  std::uint32_t stream[kSecretboxWarps][kLanes * (kSalsa20Words + 1)];
};

// Calls part(i) for each i < count that is this warp's: of few, each block gets one.
template <typename Block, typename Part>
TZMARK_DEVICE void secretbox_share_out(const Block& block, unsigned warp, std::uint32_t count, Part&& part) {
  for (std::uint64_t i = std::uint64_t{warp} * block.count() + block.number(); i < count;
       i += std::uint64_t{block.count()} * kSecretboxWarps) {
    part(static_cast<std::uint32_t>(i));
  }
}

template <typename Block>
TZMARK_DEVICE void secretbox_keys_kernel(const Block& block, const SecretboxArguments& arguments) {
  block.each_warp([&](const auto& warp, unsigned warp_number) {
    secretbox_share_out(block, warp_number, arguments.message_count, [&](std::uint32_t number) {
      const SecretboxMessage& message = arguments.messages[number];
      SecretboxKeys& keys = arguments.keys[number];
      std::uint32_t key[8], subkey[8], stream[kSalsa20Words];
      for (unsigned i = 0; i < 8; ++i) key[i] = arguments.key[i];
      hsalsa20(key, {message.nonce[0], message.nonce[1], message.nonce[2], message.nonce[3]}, arguments.salsa20_factor,
               subkey);
      salsa20_block(subkey, {message.nonce[4], message.nonce[5]}, 0, arguments.salsa20_factor, stream);
      const Limbs factor = poly1305_factor({stream[0], stream[1], stream[2], stream[3]});
      warp.each([&](unsigned lane) {
        keys.power[lane] = power(factor, lane + 1);
        if (lane != 0) return;
        for (unsigned i = 0; i < 8; ++i) keys.subkey[i] = subkey[i];
        for (unsigned i = 0; i < 4; ++i) keys.mac_key[i] = stream[4 + i];
        keys.power_64 = power(factor, 2 * kLanes);
        keys.power_96 = power(factor, 3 * kLanes);
        keys.power_128 = power(factor, 4 * kLanes);
        keys.power_of_chunk = power(factor, kSecretboxChunkBytes / kPoly1305BlockBytes);
      });
    });
  });
}

// Returns block `number` of a message for Poly1305, byte by byte.
TZMARK_DEVICE inline Limbs message_block(const SecretboxMessage& message, std::uint64_t number) {
  const std::uint64_t at = number * kPoly1305BlockBytes, left = message.bytes - at;
  const unsigned bytes = left < kPoly1305BlockBytes ? static_cast<unsigned>(left) : kPoly1305BlockBytes;
  Words words{};
  TZMARK_UNROLL for (unsigned i = 0; i < kPoly1305BlockBytes; ++i) {
    if (i < bytes) words.word[i / 4] |= std::uint32_t{load_byte(message.address + at + i)} << (8 * (i % 4));
    if (i == bytes) words.word[i / 4] |= std::uint32_t{1} << (8 * (i % 4));
  }
  return limbs_of(words, bytes == kPoly1305BlockBytes ? kPoly1305WholeBlock : 0);
}

// Whether whole_block() may load the blocks: they are whole, and no word that it loads extends beyond the message.
TZMARK_DEVICE inline bool has_whole_blocks(const SecretboxMessage& message, std::uint64_t begin, std::uint64_t end) {
  if (end * kPoly1305BlockBytes > message.bytes) return false;
  const std::uint64_t last_end = message.address + end * kPoly1305BlockBytes;
  return message.address % kPoly1305BlockBytes == 0 ||
         ((message.address + begin * kPoly1305BlockBytes) / 4 * 4 >= message.address &&
          last_end / 4 * 4 + 4 <= message.address + message.bytes);
}

TZMARK_DEVICE inline Words whole_block(const SecretboxMessage& message, std::uint64_t number) {
  const std::uint64_t address = message.address + number * kPoly1305BlockBytes;
  if (address % kPoly1305BlockBytes == 0) return load_words(address);
  const std::uint64_t aligned = address / 4 * 4;
  const unsigned shift = 8 * static_cast<unsigned>(address - aligned);
  Words words;
  std::uint32_t low = load_word(aligned);
  TZMARK_UNROLL for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t high = load_word(aligned + 4 * (i + 1));
    words.word[i] = shift_pair(low, high, shift);
    low = high;
  }
  return words;
}

// Adds up the values of all lanes, in each lane: a loose number. REQUIRES: they are loose.
template <typename Warp>
TZMARK_DEVICE void add_lanes(const Warp& warp, PerLane<Limbs>& value) {
  for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) {
    TZMARK_UNROLL for (unsigned i = 0; i < kPoly1305Limbs; ++i) {
      PerLane<std::uint32_t> other;
      warp.each([&](unsigned lane) { other[lane] = value[lane].limb[i]; });
      warp.exchange(other, [&](unsigned lane) { return lane ^ distance; });
      warp.each([&](unsigned lane) { value[lane].limb[i] += other[lane]; });
    }
  }
  // The limbs are below 32 * (2^26 + 2^10).
  warp.each([&](unsigned lane) { value[lane] = carry(value[lane]); });
}

template <typename Block>
TZMARK_DEVICE void secretbox_macs_kernel(const Block& block, const SecretboxArguments& arguments) {
  constexpr unsigned kRows = 4, kTileBlocks = kRows * kLanes;
  constexpr unsigned kChunkBlocks = kSecretboxChunkBytes / kPoly1305BlockBytes;
  block.each_warp([&](const auto& warp, unsigned warp_number) {
    secretbox_share_out(block, warp_number, arguments.chunk_count, [&](std::uint32_t chunk) {
      const std::uint32_t number = find_item(arguments.messages, arguments.message_count, chunk);
      const SecretboxMessage message = arguments.messages[number];
      const SecretboxKeys& keys = arguments.keys[number];
      const std::uint64_t blocks = (message.bytes + kPoly1305BlockBytes - 1) / kPoly1305BlockBytes;
      const std::uint64_t chunks_after = secretbox_chunk_count(message.bytes) - 1 - (chunk - message.first);
      const std::uint64_t blocks_after = chunks_after * kChunkBlocks;
      const std::uint64_t end = blocks > blocks_after ? blocks - blocks_after : 0;
      const std::uint64_t begin = end > kChunkBlocks ? end - kChunkBlocks : 0;
      const unsigned tiles = static_cast<unsigned>((end - begin + kTileBlocks - 1) / kTileBlocks);
      const Limbs power_32 = keys.power[kLanes - 1];
      const Limbs power_64 = keys.power_64, power_96 = keys.power_96, power_128 = keys.power_128;
      PerLane<Limbs> sum;
      warp.each([&](unsigned lane) { sum[lane] = Limbs{}; });
      for (unsigned tile = tiles; tile-- > 0;) {
        const std::uint64_t tile_end = end - std::uint64_t{tile} * kTileBlocks;
        const unsigned there = tile_end - begin < kTileBlocks ? static_cast<unsigned>(tile_end - begin) : kTileBlocks;
        const std::uint64_t first = tile_end - there;
        if (there == kTileBlocks && has_whole_blocks(message, first, tile_end)) {
          warp.each([&](unsigned lane) {
            Words words[kRows];
            TZMARK_UNROLL for (unsigned row = 0; row < kRows; ++row) {
              words[row] = whole_block(message, first + row * kLanes + lane);
            }
            std::uint64_t wide[kPoly1305Limbs] = {};
            add_product(wide, sum[lane], power_128);
            add_product(wide, limbs_of(words[0], kPoly1305WholeBlock), power_96);
            add_product(wide, limbs_of(words[1], kPoly1305WholeBlock), power_64);
            add_product(wide, limbs_of(words[2], kPoly1305WholeBlock), power_32);
            const Limbs last = limbs_of(words[3], kPoly1305WholeBlock);
            for (unsigned i = 0; i < kPoly1305Limbs; ++i) wide[i] += last.limb[i];
            sum[lane] = carry(wide);
          });
          continue;
        }
        // At the edges of a message. Missing blocks contribute nothing.
        warp.each([&](unsigned lane) {
          for (unsigned row = 0; row < kRows; ++row) {
            const unsigned at = row * kLanes + lane, missing = kTileBlocks - there;
            sum[lane] = multiply(sum[lane], power_32);
            if (at >= missing) sum[lane] = add(sum[lane], message_block(message, first + at - missing));
          }
        });
      }
      warp.each([&](unsigned lane) { sum[lane] = multiply(sum[lane], keys.power[kLanes - 1 - lane]); });
      add_lanes(warp, sum);
      warp.each([&](unsigned lane) {
        if (lane == 0) arguments.shares[chunk] = sum[lane];
      });
    });
  });
}

template <typename Block>
TZMARK_DEVICE void secretbox_verdicts_kernel(const Block& block, const SecretboxArguments& arguments) {
  block.each_warp([&](const auto& warp, unsigned warp_number) {
    secretbox_share_out(block, warp_number, arguments.message_count, [&](std::uint32_t number) {
      const SecretboxMessage& message = arguments.messages[number];
      const SecretboxKeys& keys = arguments.keys[number];
      const Limbs* const shares = arguments.shares + message.first;
      const Limbs factor = keys.power_of_chunk;
      // Each lane adds up as many chunks that follow each other, of which the first ones may be missing.
      const std::uint32_t chunks = static_cast<std::uint32_t>(secretbox_chunk_count(message.bytes));
      const std::uint32_t each = (chunks + kLanes - 1) / kLanes, missing = each * kLanes - chunks;
      PerLane<Limbs> sum;
      warp.each([&](unsigned lane) {
        sum[lane] = Limbs{};
        for (std::uint32_t i = lane * each; i < (lane + 1) * each; ++i) {
          sum[lane] = multiply(sum[lane], factor);
          if (i >= missing) sum[lane] = add(sum[lane], shares[i - missing]);
        }
        // The lanes after this one have so many chunks.
        sum[lane] = multiply(sum[lane], power(factor, (kLanes - 1 - lane) * each));
      });
      add_lanes(warp, sum);
      warp.each([&](unsigned lane) {
        if (lane != 0) return;
        std::uint32_t mac_key[4];
        for (unsigned i = 0; i < 4; ++i) mac_key[i] = keys.mac_key[i];
        const Words mac = poly1305_mac(sum[lane], mac_key);
        std::uint32_t difference = 0;
        for (unsigned i = 0; i < 4; ++i) difference |= mac.word[i] ^ message.mac[i];
        arguments.results[number] = difference == 0 ? kSecretboxOpened : kSecretboxWrongMac;
      });
    });
  });
}

// Returns the place of word i of the key stream in shared memory.
TZMARK_DEVICE constexpr unsigned stream_word(unsigned i) { return i + i / kSalsa20Words; }

TZMARK_DEVICE inline std::uint8_t stream_byte(const std::uint32_t* stream, unsigned at) {
  return static_cast<std::uint8_t>(stream[stream_word(at / 4)] >> (8 * (at % 4)));
}

// Bytes of device memory that a tile of the key stream covers.
struct SecretboxPlace {
  std::uint64_t begin, words_begin;
  unsigned head, words, tail;  // bytes, words of 4 bytes, bytes
  unsigned at;                 // the position of begin in the tile
};

// tile: a multiple of the tile's size in the key stream.
TZMARK_DEVICE inline SecretboxPlace secretbox_place(const SecretboxMessage& message, std::uint64_t tile) {
  const std::uint64_t stream_end = kSecretboxStreamBegin + message.bytes;
  const std::uint64_t origin = message.address - kSecretboxStreamBegin;
  const std::uint64_t first = tile == 0 ? kSecretboxStreamBegin : tile;
  const std::uint64_t last = stream_end - tile < kSecretboxTileBytes ? stream_end : tile + kSecretboxTileBytes;
  const std::uint64_t begin = origin + first, end = origin + (last > first ? last : first);
  const std::uint64_t rounded = (begin + 3) / 4 * 4;
  const std::uint64_t words_begin = rounded < end ? rounded : end;
  return {begin,
          words_begin,
          static_cast<unsigned>(words_begin - begin),
          static_cast<unsigned>((end - words_begin) / 4),
          static_cast<unsigned>((end - words_begin) % 4),
          static_cast<unsigned>(first - tile)};
}

// XORs one lane's share of the key stream. words: those of the lane, which were loaded before.
TZMARK_DEVICE inline void xor_stream(const std::uint32_t* stream, const SecretboxPlace& place, unsigned lane,
                                     const std::uint32_t (&words)[kSalsa20Words]) {
  const unsigned at = place.at + place.head;
  // Bytes that share a word with bytes outside the range are accessed individually.
  if (lane < place.head) xor_byte(place.begin + lane, stream_byte(stream, place.at + lane));
  if (lane < place.tail) {
    xor_byte(place.words_begin + 4 * place.words + lane, stream_byte(stream, at + 4 * place.words + lane));
  }
  const unsigned first = at / 4, shift = 8 * (at % 4);
  TZMARK_UNROLL for (unsigned k = 0; k < kSalsa20Words; ++k) {
    const unsigned i = k * kLanes + lane;
    if (i >= place.words) continue;
    const std::uint32_t low = stream[stream_word(first + i)];
    // The stream has a next word whenever a part of it is needed.
    const std::uint32_t high = shift == 0 ? 0 : stream[stream_word(first + i + 1)];
    store_word(place.words_begin + 4 * i, words[k] ^ shift_pair(low, high, shift));
  }
}

struct SecretboxTileWords {
  std::uint32_t word[kSalsa20Words];
};

template <typename Block>
TZMARK_DEVICE void secretbox_open_kernel(const Block& block, SecretboxShared& shared,
                                         const SecretboxArguments& arguments) {
  block.each_warp([&](const auto& warp, unsigned warp_number) {
    std::uint32_t* const stream = shared.stream[warp_number];
    secretbox_share_out(block, warp_number, arguments.chunk_count, [&](std::uint32_t chunk) {
      const std::uint32_t number = find_item(arguments.messages, arguments.message_count, chunk);
      if (arguments.results[number] != kSecretboxOpened) return;
      const SecretboxMessage message = arguments.messages[number];
      std::uint32_t key[8];
      for (unsigned i = 0; i < 8; ++i) key[i] = arguments.keys[number].subkey[i];
      const std::uint64_t stream_end = kSecretboxStreamBegin + message.bytes;
      const std::uint64_t begin = std::uint64_t{chunk - message.first} * kSecretboxChunkBytes;
      const std::uint64_t end = stream_end - begin < kSecretboxChunkBytes ? stream_end : begin + kSecretboxChunkBytes;
      for (std::uint64_t tile = begin; tile < end; tile += kSecretboxTileBytes) {
        const SecretboxPlace place = secretbox_place(message, tile);
        PerLane<SecretboxTileWords> words;
        warp.each([&](unsigned lane) {
          TZMARK_UNROLL for (unsigned k = 0; k < kSalsa20Words; ++k) {
            const unsigned i = k * kLanes + lane;
            words[lane].word[k] = i < place.words ? load_word(place.words_begin + 4 * i) : 0;
          }
          std::uint32_t block_words[kSalsa20Words];
          salsa20_block(key, {message.nonce[4], message.nonce[5]}, tile / kSalsa20Bytes + lane,
                        arguments.salsa20_factor, block_words);
          TZMARK_UNROLL for (unsigned i = 0; i < kSalsa20Words; ++i) {
            stream[lane * (kSalsa20Words + 1) + i] = block_words[i];
          }
        });
        warp.sync();
        warp.each([&](unsigned lane) { xor_stream(stream, place, lane, words[lane].word); });
        // The next tile overwrites the key stream.
        warp.sync();
      }
    });
  });
  block.each([&](unsigned thread) { wipe(shared, thread, kSecretboxThreads); });
}

}  // namespace tzmark::gpu
