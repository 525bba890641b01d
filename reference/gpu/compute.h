// CRC32 and XSalsa20-Poly1305 of bytes in GPU memory.
//
// A tensor that was transferred directly from storage to the GPU is verified and decrypted there. Needs kernels, which
// a build without a CUDA Toolkit lacks. The calls block until the results are complete, and use streams of their own:
// the bytes must be in place before the call, and may be used at once after it. A call costs some tens of microseconds,
// which many ranges or messages share. Thread-safety: all functions are thread-safe. Errors: TZE-AVL-001 if
// why_no_device_compute() is not empty; TZE-ENV-006 if the GPU or its memory fails.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tzmark/buffer.h"

namespace tzmark {

// Returns the reason why the GPU cannot compute; empty if there are kernels and a GPU that runs them. Determined by the
// first call.
const std::string& why_no_device_compute();

// Returns the CRC32 (as zlib's) of each range of GPU memory, of any size and address. REQUIRES: kind == kDevice.
std::vector<std::uint32_t> crc32_on_device(std::span<const ConstBuffer> ranges);

// A message as crypto_secretbox_detached of libsodium encrypts it.
struct SealedMessage {
  MutableBuffer data;  // ciphertext in GPU memory, at any address; decrypted in place
  std::array<std::byte, 24> nonce;
  std::array<std::byte, 16> mac;
};

// Decrypts messages independently. Returns the indices of those whose MAC is wrong, in ascending order, and leaves
// these unchanged. Wipes the key and everything derived from it from GPU memory. After an exception it is unknown which
// messages are decrypted. REQUIRES: kind == kDevice; no two messages overlap.
[[nodiscard]] std::vector<std::size_t> open_on_device(std::span<const std::byte, 32> key,
                                                      std::span<const SealedMessage> messages);

}  // namespace tzmark
