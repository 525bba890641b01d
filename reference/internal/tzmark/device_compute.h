// What a GPU computes on bytes that are already in its memory: CRC32, and XSalsa20-Poly1305.
//
// A tensor that went straight from storage to the GPU is verified and decrypted there, without a copy to the host.
// Needs kernels, which a build without a CUDA Toolkit lacks. Calls return when the results are there and run on streams
// of their own: the bytes have to be in place before the call, and later work need not wait for anything. A call costs
// some tens of microseconds, so pass many ranges or messages at once.
// Thread-safety: all functions may be called from any threads at the same time.
// Errors: TZE-AVL-001 where why_no_device_compute() gives a reason; TZE-ENV-006 if the GPU or its memory fails.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tzmark/buffer.h"

namespace tzmark {

// Says why this process cannot compute on a GPU: no kernels in this build, or a GPU that does not run them. Empty if it
// can. Determined once for each GPU, by the first call.
const std::string& why_no_device_compute(int device = 0);

// kernel_time, of each function below: set to the time of the kernels on the GPU, without that of the call, unless
// null.

// Returns the CRC32 (as zlib) of each range of device memory, of any size and at any address. Throws TZE-USE-001 if the
// ranges are of several GPUs. REQUIRES: kind == kDevice.
std::vector<std::uint32_t> crc32_on_device(std::span<const ConstBuffer> ranges,
                                           std::chrono::nanoseconds* kernel_time = nullptr);

// Reads device memory, as fast as a kernel can: what none that computes a hash can go below. Less than 16 bytes at the
// end are left out. REQUIRES: kind == kDevice; the address is a multiple of 16.
void read_on_device(ConstBuffer memory, std::chrono::nanoseconds* kernel_time = nullptr);

// A message as crypto_secretbox_detached of libsodium makes it.
struct SealedMessage {
  MutableBuffer data;  // ciphertext in device memory, at any address; opened in place
  std::array<std::byte, 24> nonce;
  std::array<std::byte, 16> mac;
};

// Verifies and decrypts messages in place. Returns the indices of those whose MAC is wrong, in ascending order; they
// are left unchanged. Neither the key nor anything derived from it stays in GPU memory. After an error it is unknown
// which messages were decrypted. Throws TZE-USE-001 if they are of several GPUs. REQUIRES: kind == kDevice; no two
// messages overlap.
[[nodiscard]] std::vector<std::size_t> open_on_device(std::span<const std::byte, 32> key,
                                                      std::span<const SealedMessage> messages,
                                                      std::chrono::nanoseconds* kernel_time = nullptr);

}  // namespace tzmark
