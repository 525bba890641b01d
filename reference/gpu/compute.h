// What the GPU computes on bytes that are already in its memory: CRC32, and XSalsa20-Poly1305.
//
// So a tensor that went straight from storage to the GPU is verified and decrypted without a way back. Needs kernels,
// which a build without a CUDA Toolkit lacks. The calls return when the results are there, and use streams of their
// own: the bytes have to be in place before, and whoever uses them afterwards has nothing to wait for. A call costs
// some tens of microseconds, which many ranges or messages share.
// Thread-safety: all functions may be called from any threads at the same time.
// Errors: TZE-AVL-001 where why_no_device_compute() says so; TZE-ENV-006 where the GPU or its memory fails.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tzmark/buffer.h"

namespace tzmark {

// Empty if this build has kernels and there is a GPU that runs them; else why not. Asked for once, at the first call.
const std::string& why_no_device_compute();

// CRC32 as zlib's, of each range of device memory, of any size and at any address. REQUIRES: kind == kDevice.
std::vector<std::uint32_t> crc32_on_device(std::span<const ConstBuffer> ranges);

// As crypto_secretbox_detached of libsodium makes one.
struct SealedMessage {
  MutableBuffer data;  // ciphertext in device memory, at any address; opened in place
  std::array<std::byte, 24> nonce;
  std::array<std::byte, 16> mac;
};

// Opens messages, each on its own. Returns the numbers of those whose MAC is wrong, in ascending order; they are left
// as they were. The key does not stay in the GPU's memory, nor does anything made of it. Whoever gets an error does not
// know which messages are open. REQUIRES: kind == kDevice; no two messages overlap.
[[nodiscard]] std::vector<std::size_t> open_on_device(std::span<const std::byte, 32> key,
                                                      std::span<const SealedMessage> messages);

}  // namespace tzmark
