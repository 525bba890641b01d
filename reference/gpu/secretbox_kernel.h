// The kernel that decrypts XSalsa20-Poly1305 messages in place: each thread block processes one message at a time.
//
// For the MAC, thread t of T processes every T-th block of 16 bytes: sum = sum * r^T + block, and multiplies by a power
// of r at the end. Blocks missing to a multiple of T are omitted at the beginning, so that this power depends on t
// alone. Only if the MAC is correct, the threads compute key stream into shared memory, a block of 64 bytes each, and
// XOR it to the message in the order of its bytes, so that adjacent threads access adjacent words.
//
// The following rates are computed from instruction counts, not measured on a GPU.
// Integer instructions limit the speed; an SM executes 64 lanes per cycle. 64 bytes of Salsa20 take 1,000 instructions,
// and their XOR 160; 64 bytes of Poly1305 take 100 multiplications of 64 bits, which count twice, and 120 others: 1,500
// in total, so 2.7 bytes per cycle, 630 GB/s with 132 SMs at 1.75 GHz. Memory, where each byte is read twice and
// written once, would allow more than 1 TB/s. A message has a fixed cost of some 15,000 cycles (two blocks of Salsa20,
// the powers of r, barriers), 1 % of the time of 2 MiB; a single large message uses a single thread block, so 1/528 of
// an H200.
#pragma once

#include "gpu/poly1305.h"
#include "gpu/salsa20.h"

namespace tzmark::gpu {

constexpr unsigned kSecretboxThreads = 256;
constexpr unsigned kSecretboxKeyBytes = 32;
// The first half of the key stream's first block is the MAC key; the message starts at the second half.
constexpr unsigned kSecretboxStreamBegin = 32;
constexpr std::uint32_t kSecretboxOpened = 1, kSecretboxWrongMac = 2;

struct SecretboxMessage {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t nonce[6];
  std::uint32_t mac[4];
};

// The kernel's argument. The kernel writes one of the results above per message.
struct SecretboxArguments {
  const std::uint32_t* key;  // 8 words of device memory, so that they can be wiped
  const SecretboxMessage* messages;
  std::uint64_t message_count;
  std::uint32_t* results;
};

struct SecretboxShared {
  std::uint32_t subkey[8];
  std::uint32_t mac_key[4];                                // its second half
  std::uint32_t power[kPoly1305Limbs][kSecretboxThreads];  // r^(t + 1)
  std::uint32_t share[kPoly1305Limbs][kSecretboxThreads];  // of each thread
  std::uint32_t sum[kPoly1305Limbs][kLanes];
  // Words of the key stream, with padding after every 16, so that the threads, which write 16 each, use all banks.
  std::uint32_t stream[kSecretboxThreads * (kSalsa20Words + 1)];
  std::uint32_t opens;
};

TZMARK_DEVICE inline Limbs load_limbs(const std::uint32_t (&limbs)[kPoly1305Limbs][kSecretboxThreads], unsigned at) {
  return {{limbs[0][at], limbs[1][at], limbs[2][at], limbs[3][at], limbs[4][at]}};
}

TZMARK_DEVICE inline void store_limbs(std::uint32_t (&limbs)[kPoly1305Limbs][kSecretboxThreads], unsigned at,
                                      const Limbs& value) {
  for (unsigned i = 0; i < kPoly1305Limbs; ++i) limbs[i][at] = value.limb[i];
}

// Returns block `number` of a message for Poly1305.
TZMARK_DEVICE inline Limbs message_block(const SecretboxMessage& message, std::uint64_t number) {
  const std::uint64_t end = message.address + message.bytes;
  const std::uint64_t address = message.address + number * kPoly1305BlockBytes;
  const std::uint64_t aligned = address / 4 * 4;
  Words words{};
  if (end - address < kPoly1305BlockBytes || aligned < message.address || end - aligned < 20) {
    // At the edges, whole words would extend beyond the message.
    const unsigned bytes =
        end - address < kPoly1305BlockBytes ? static_cast<unsigned>(end - address) : kPoly1305BlockBytes;
    TZMARK_UNROLL for (unsigned i = 0; i < kPoly1305BlockBytes; ++i) {
      if (i < bytes) words.word[i / 4] |= std::uint32_t{load_byte(address + i)} << (8 * (i % 4));
      if (i == bytes) words.word[i / 4] |= std::uint32_t{1} << (8 * (i % 4));
    }
    return limbs_of(words, bytes == kPoly1305BlockBytes ? kPoly1305WholeBlock : 0);
  }
  if (address % kPoly1305BlockBytes == 0) return limbs_of(load_words(address), kPoly1305WholeBlock);
  const unsigned shift = 8 * static_cast<unsigned>(address - aligned);
  std::uint32_t low = load_word(aligned);
  TZMARK_UNROLL for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t high = load_word(aligned + 4 * (i + 1));
    words.word[i] = shift_pair(low, high, shift);
    low = high;
  }
  return limbs_of(words, kPoly1305WholeBlock);
}

// Returns the sum of one thread's blocks, as if its last block were the message's last.
TZMARK_DEVICE inline Limbs message_share(const SecretboxShared& shared, const SecretboxMessage& message,
                                         std::uint64_t blocks, unsigned thread) {
  const std::uint64_t rounds = (blocks + kSecretboxThreads - 1) / kSecretboxThreads;
  const std::uint64_t missing = rounds * kSecretboxThreads - blocks;
  std::uint64_t number = thread < missing ? thread + kSecretboxThreads - missing : thread - missing;
  if (number >= blocks) return {};
  Limbs sum = message_block(message, number);
  if (number + kSecretboxThreads >= blocks) return sum;
  const Limbs stride = load_limbs(shared.power, kSecretboxThreads - 1);
  // Loads the next block while multiplying the sum.
  number += kSecretboxThreads;
  Limbs next = message_block(message, number);
  while (number + kSecretboxThreads < blocks) {
    number += kSecretboxThreads;
    const Limbs following = message_block(message, number);
    sum = add(multiply(sum, stride), next);
    next = following;
  }
  return add(multiply(sum, stride), next);
}

// Returns word i of the key stream in shared memory.
TZMARK_DEVICE constexpr unsigned stream_word(unsigned i) { return i + i / kSalsa20Words; }

TZMARK_DEVICE inline std::uint8_t stream_byte(const SecretboxShared& shared, unsigned at) {
  return static_cast<std::uint8_t>(shared.stream[stream_word(at / 4)] >> (8 * (at % 4)));
}

// XORs one thread's share of the key stream to the bytes from begin to end. at: the position of begin in the stream.
TZMARK_DEVICE inline void xor_stream(const SecretboxShared& shared, std::uint64_t begin, std::uint64_t end, unsigned at,
                                     unsigned thread) {
  const std::uint64_t rounded = (begin + 3) / 4 * 4;
  const std::uint64_t words_begin = rounded < end ? rounded : end;
  const unsigned head = static_cast<unsigned>(words_begin - begin);
  const unsigned words = static_cast<unsigned>((end - words_begin) / 4);
  const unsigned tail = static_cast<unsigned>((end - words_begin) % 4);
  // Bytes that share a word with bytes outside the range are accessed individually.
  if (thread < head) xor_byte(begin + thread, stream_byte(shared, at + thread));
  if (thread < tail) {
    xor_byte(words_begin + 4 * words + thread, stream_byte(shared, at + head + 4 * words + thread));
  }
  const unsigned first = (at + head) / 4, shift = 8 * ((at + head) % 4);
  constexpr unsigned kAhead = 8;  // loads in flight
  for (unsigned done = thread; done < words; done += kAhead * kSecretboxThreads) {
    std::uint32_t word[kAhead] = {};
    TZMARK_UNROLL for (unsigned k = 0; k < kAhead; ++k) {
      const unsigned i = done + k * kSecretboxThreads;
      if (i < words) word[k] = load_word(words_begin + 4 * i);
    }
    TZMARK_UNROLL for (unsigned k = 0; k < kAhead; ++k) {
      const unsigned i = done + k * kSecretboxThreads;
      if (i >= words) continue;
      const std::uint32_t low = shared.stream[stream_word(first + i)];
      // The stream has a next word whenever a part of it is needed.
      const std::uint32_t high = shift == 0 ? 0 : shared.stream[stream_word(first + i + 1)];
      store_word(words_begin + 4 * i, word[k] ^ shift_pair(low, high, shift));
    }
  }
}

// Computes the MAC of a message, and sets shared.opens if it is correct.
template <typename Block>
TZMARK_DEVICE void check_mac(const Block& block, SecretboxShared& shared, const SecretboxMessage& message,
                             const std::uint32_t* key_address) {
  block.each([&](unsigned thread) {
    if (thread != 0) return;
    std::uint32_t key[8];
    for (unsigned i = 0; i < 8; ++i) key[i] = key_address[i];
    hsalsa20(key, {message.nonce[0], message.nonce[1], message.nonce[2], message.nonce[3]}, shared.subkey);
    std::uint32_t stream[kSalsa20Words];
    salsa20_block(shared.subkey, {message.nonce[4], message.nonce[5]}, 0, stream);
    store_limbs(shared.power, 0, poly1305_factor({stream[0], stream[1], stream[2], stream[3]}));
    for (unsigned i = 0; i < 4; ++i) shared.mac_key[i] = stream[4 + i];
  });
  const std::uint64_t blocks = message.bytes / kPoly1305BlockBytes + (message.bytes % kPoly1305BlockBytes != 0);
  // Computes the powers that the message needs, each from two known ones.
  for (unsigned there = 1; there < kSecretboxThreads && there < blocks; there *= 2) {
    block.each([&](unsigned thread) {
      if (thread < there || thread >= 2 * there) return;
      store_limbs(shared.power, thread,
                  multiply(load_limbs(shared.power, thread - there), load_limbs(shared.power, there - 1)));
    });
  }
  block.each([&](unsigned thread) {
    Limbs share{};
    if (blocks >= kSecretboxThreads - thread) {
      share = multiply(message_share(shared, message, blocks, thread),
                       load_limbs(shared.power, kSecretboxThreads - 1 - thread));
    }
    store_limbs(shared.share, thread, share);
  });
  block.each([&](unsigned thread) {
    if (thread >= kLanes) return;
    for (unsigned i = 0; i < kPoly1305Limbs; ++i) {
      // Sums of eight limbs of little more than 26 bits.
      std::uint32_t sum = 0;
      for (unsigned other = thread; other < kSecretboxThreads; other += kLanes) sum += shared.share[i][other];
      shared.sum[i][thread] = sum;
    }
  });
  block.each([&](unsigned thread) {
    if (thread != 0) return;
    std::uint64_t sum[kPoly1305Limbs];
    for (unsigned i = 0; i < kPoly1305Limbs; ++i) {
      sum[i] = 0;
      for (unsigned lane = 0; lane < kLanes; ++lane) sum[i] += shared.sum[i][lane];
    }
    const Words mac = poly1305_mac(carry(sum), shared.mac_key);
    std::uint32_t difference = 0;
    for (unsigned i = 0; i < 4; ++i) difference |= mac.word[i] ^ message.mac[i];
    shared.opens = difference == 0;
  });
}

template <typename Block>
TZMARK_DEVICE void decrypt(const Block& block, SecretboxShared& shared, const SecretboxMessage& message) {
  constexpr unsigned kTileBytes = kSecretboxThreads * kSalsa20Bytes;
  const std::uint64_t stream_end = kSecretboxStreamBegin + message.bytes;
  for (std::uint64_t tile = 0; tile < stream_end; tile += kTileBytes) {
    block.each([&](unsigned thread) {
      const std::uint64_t at = tile + std::uint64_t{thread} * kSalsa20Bytes;
      if (at >= stream_end) return;
      std::uint32_t stream[kSalsa20Words];
      salsa20_block(shared.subkey, {message.nonce[4], message.nonce[5]}, at / kSalsa20Bytes, stream);
      for (unsigned i = 0; i < kSalsa20Words; ++i) shared.stream[thread * (kSalsa20Words + 1) + i] = stream[i];
    });
    const std::uint64_t begin = tile == 0 ? kSecretboxStreamBegin : tile;
    const std::uint64_t end = stream_end - tile < kTileBytes ? stream_end : tile + kTileBytes;
    const std::uint64_t origin = message.address - kSecretboxStreamBegin;
    block.each([&](unsigned thread) {
      xor_stream(shared, origin + begin, origin + end, static_cast<unsigned>(begin - tile), thread);
    });
  }
}

template <typename Block>
TZMARK_DEVICE void secretbox_kernel(const Block& block, SecretboxShared& shared, const SecretboxArguments& arguments) {
  for (std::uint64_t number = block.number(); number < arguments.message_count; number += block.count()) {
    const SecretboxMessage message = arguments.messages[number];
    check_mac(block, shared, message, arguments.key);
    const bool opens = shared.opens != 0;
    if (opens) decrypt(block, shared, message);
    block.each([&](unsigned thread) {
      if (thread == 0) arguments.results[number] = opens ? kSecretboxOpened : kSecretboxWrongMac;
    });
  }
  block.each([&](unsigned thread) { wipe(shared, thread, kSecretboxThreads); });
}

}  // namespace tzmark::gpu
