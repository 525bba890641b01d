// Runs each step from one thread, because a single call keeps the GPU busy; see gpu_ceilings.h.
#include "harness/gpu_ceilings.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "tzmark/device_compute.h"
#include "tzmark/device_memory.h"
#include "tzmark/error.h"
#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kDevicePieceBytes = std::size_t{2} << 20;

std::vector<MutableBuffer> pieces_of(MutableBuffer memory) {
  std::vector<MutableBuffer> pieces;
  for (std::size_t at = 0; at < memory.size; at += kDevicePieceBytes) {
    pieces.push_back(memory.sub(at, std::min(kDevicePieceBytes, memory.size - at)));
  }
  return pieces;
}

// Returns the step over the whole working set. memory and host must outlive it.
std::function<void()> step(GpuRung rung, DeviceMemory& memory, std::span<std::byte> host) {
  switch (rung) {
    case GpuRung::kCopy:
      return [&memory, host] {
        for (std::size_t at = 0; at < memory.buffer().size; at += host.size()) {
          memory.copy_from_host(at, host.first(std::min(host.size(), memory.buffer().size - at)));
        }
      };
    case GpuRung::kFill:
      return [&memory] { fill_with_zeros(memory.buffer()); };
    case GpuRung::kCrc32: {
      const std::vector<MutableBuffer> pieces = pieces_of(memory.buffer());
      return [ranges = std::vector<ConstBuffer>(pieces.begin(), pieces.end())] {
        static_cast<void>(crc32_on_device(ranges));
      };
    }
    case GpuRung::kSecretbox:
      break;
  }
  throw std::logic_error("decryption is measured by class Decryption");
}

// Decrypts all messages in place. Each run first restores the ciphertext, untimed.
class Decryption {
 public:
  explicit Decryption(DeviceMemory& memory)
      : memory_(memory), sealed_(std::min(kDevicePieceBytes, memory.buffer().size)) {
    for (const MutableBuffer& piece : pieces_of(memory.buffer())) {
      SealedMessage& message = messages_.emplace_back();
      message.data = piece;
      message.nonce = {};
    }
  }

  // Returns the seconds that decryption took.
  double run() {
    const std::vector<std::byte> plaintext(sealed_.size());
    for (SealedMessage& message : messages_) {
      // All full messages are equal.
      if (message.data.size == sealed_.size() && &message != &messages_.front()) {
        message.mac = messages_.front().mac;
      } else {
        crypto_secretbox_detached(reinterpret_cast<unsigned char*>(sealed_.data()),
                                  reinterpret_cast<unsigned char*>(message.mac.data()),
                                  reinterpret_cast<const unsigned char*>(plaintext.data()), message.data.size,
                                  reinterpret_cast<const unsigned char*>(message.nonce.data()),
                                  reinterpret_cast<const unsigned char*>(key_.data()));
      }
      memory_.copy_from_host(static_cast<std::size_t>(message.data.data - memory_.buffer().data),
                             std::span(sealed_).first(message.data.size));
    }
    const Clock::time_point begin = Clock::now();
    if (!open_on_device(key_, messages_).empty()) throw Error(ErrorCode::kResource, "the GPU reported a wrong MAC");
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  DeviceMemory& memory_;
  std::vector<std::byte> sealed_;
  std::vector<SealedMessage> messages_;
  std::array<std::byte, 32> key_{};
};

}  // namespace

std::string_view rung_name(GpuRung rung) {
  switch (rung) {
    case GpuRung::kCopy:
      return "host-to-device";
    case GpuRung::kFill:
      return "gpu-memory";
    case GpuRung::kCrc32:
      return "gpu-crc32";
    case GpuRung::kSecretbox:
      break;
  }
  return "gpu-secretbox";
}

double measure_rate(GpuRung rung, std::chrono::nanoseconds time, std::size_t working_set_bytes) {
  if (const std::string why = DeviceMemory::why_unavailable(); !why.empty()) throw Error(ErrorCode::kUnavailable, why);
  if (::sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium cannot be initialized");
  DeviceMemory memory(working_set_bytes);
  HostMemory host(rung == GpuRung::kCopy ? std::min(working_set_bytes, std::size_t{64} << 20) : 0);
  const PinnedRange pinned(host.bytes());
  std::ranges::fill(host.bytes(), std::byte{0x5a});
  double seconds = 0;
  double bytes = 0;
  const double enough = std::chrono::duration<double>(time).count();
  const auto count = [&](double took) {
    seconds += took;
    bytes += static_cast<double>(working_set_bytes);
  };
  if (rung == GpuRung::kSecretbox) {
    Decryption opening(memory);
    opening.run();  // the first launch loads the kernel
    while (seconds < enough) count(opening.run());
  } else {
    const std::function<void()> once = step(rung, memory, host.bytes());
    once();
    while (seconds < enough) {
      const Clock::time_point begin = Clock::now();
      once();
      count(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  }
  return bytes / seconds;
}

}  // namespace tzmark::bench
