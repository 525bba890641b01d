// Runs each step from one thread, because a single call keeps the GPU busy; see gpu_ceilings.h.
#include "harness/gpu_ceilings.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
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

// A step over the whole working set, which returns the time that counts.
using Step = std::function<std::chrono::nanoseconds()>;

template <typename Call>
std::chrono::nanoseconds timed(Call&& call) {
  const Clock::time_point begin = Clock::now();
  call();
  return Clock::now() - begin;
}

// memory and host must outlive the step.
Step step(GpuRung rung, DeviceMemory& memory, std::span<std::byte> host) {
  const std::vector<MutableBuffer> pieces = pieces_of(memory.buffer());
  const std::vector<ConstBuffer> ranges(pieces.begin(), pieces.end());
  std::chrono::nanoseconds of_kernel{};
  switch (rung) {
    case GpuRung::kCopy:
      return [&memory, host] {
        return timed([&] {
          for (std::size_t at = 0; at < memory.buffer().size; at += host.size()) {
            memory.copy_from_host(at, host.first(std::min(host.size(), memory.buffer().size - at)));
          }
        });
      };
    case GpuRung::kFill:
      return [&memory] { return timed([&] { fill_with_zeros(memory.buffer()); }); };
    case GpuRung::kRead:
      return [&memory, of_kernel]() mutable {
        read_on_device(memory.buffer(), &of_kernel);
        return of_kernel;
      };
    case GpuRung::kCrc32:
      return [ranges] { return timed([&] { static_cast<void>(crc32_on_device(ranges)); }); };
    case GpuRung::kCrc32Kernel:
      return [ranges, of_kernel]() mutable {
        static_cast<void>(crc32_on_device(ranges, &of_kernel));
        return of_kernel;
      };
    case GpuRung::kSecretbox:
    case GpuRung::kSecretboxKernel:
      break;
  }
  throw std::logic_error("decryption is measured by class Decryption");
}

// Decrypts all messages in place. Each run first restores the ciphertext, untimed.
class Decryption {
 public:
  explicit Decryption(DeviceMemory& memory)
      : memory_(memory), sealed_(std::min(kDevicePieceBytes, memory.buffer().size)), pinned_(sealed_.bytes()) {
    const std::vector<std::byte> plaintext(sealed_.bytes().size());
    for (const MutableBuffer& piece : pieces_of(memory.buffer())) {
      SealedMessage& message = messages_.emplace_back();
      message.data = piece;
      message.nonce = {};
      // All full messages are equal.
      if (&message != &messages_.front() && piece.size == messages_.front().data.size) {
        message.mac = messages_.front().mac;
      } else {
        seal(plaintext, message);
      }
    }
    // The last message may be shorter.
    seal(plaintext, messages_.front());
  }

  // Throws if a run did not end in the plaintext.
  void require_opened() {
    std::vector<std::byte> bytes(sealed_.bytes().size());
    for (const SealedMessage& message : {messages_.front(), messages_.back()}) {
      const auto some = std::span(bytes).first(message.data.size);
      memory_.copy_to_host(static_cast<std::size_t>(message.data.data - memory_.buffer().data), some);
      if (std::ranges::any_of(some, [](std::byte byte) { return byte != std::byte{0}; })) {
        throw Error(ErrorCode::kResource, "the GPU decrypted a message wrongly");
      }
    }
  }

  // Returns the time of the call, or of its kernels.
  std::chrono::nanoseconds run(bool of_kernels) {
    for (const SealedMessage& message : messages_) {
      memory_.copy_from_host(static_cast<std::size_t>(message.data.data - memory_.buffer().data),
                             sealed_.bytes().first(message.data.size));
    }
    std::chrono::nanoseconds kernel_time{};
    const auto call_time = timed([&] {
      if (!open_on_device(key_, messages_, of_kernels ? &kernel_time : nullptr).empty()) {
        throw Error(ErrorCode::kResource, "the GPU reported a wrong MAC");
      }
    });
    return of_kernels ? kernel_time : call_time;
  }

 private:
  // A key stream is the same for a shorter message, and so is its ciphertext.
  void seal(std::span<const std::byte> plaintext, SealedMessage& message) {
    crypto_secretbox_detached(reinterpret_cast<unsigned char*>(sealed_.bytes().data()),
                              reinterpret_cast<unsigned char*>(message.mac.data()),
                              reinterpret_cast<const unsigned char*>(plaintext.data()), message.data.size,
                              reinterpret_cast<const unsigned char*>(message.nonce.data()),
                              reinterpret_cast<const unsigned char*>(key_.data()));
  }

  DeviceMemory& memory_;
  HostMemory sealed_;
  const PinnedRange pinned_;
  std::vector<SealedMessage> messages_;
  std::array<std::byte, 32> key_{};
};

}  // namespace

void fill_with_data(DeviceMemory& memory) {
  std::vector<std::byte> block(std::min(memory.buffer().size, std::size_t{16} << 20));
  std::mt19937_64 random(1);
  for (std::size_t at = 0; at < block.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(block.data() + at, &word, std::min(sizeof word, block.size() - at));
  }
  for (std::size_t at = 0; at < memory.buffer().size; at += block.size()) {
    memory.copy_from_host(at, std::span(block).first(std::min(block.size(), memory.buffer().size - at)));
  }
}

std::string_view rung_name(GpuRung rung) {
  switch (rung) {
    case GpuRung::kCopy:
      return "host-to-device";
    case GpuRung::kFill:
      return "gpu-memory";
    case GpuRung::kRead:
      return "gpu-memory-read";
    case GpuRung::kCrc32:
      return "gpu-crc32";
    case GpuRung::kCrc32Kernel:
      return "gpu-crc32-kernel";
    case GpuRung::kSecretbox:
      return "gpu-secretbox";
    case GpuRung::kSecretboxKernel:
      break;
  }
  return "gpu-secretbox-kernel";
}

bool needs_kernels(GpuRung rung) { return rung != GpuRung::kCopy && rung != GpuRung::kFill; }

std::size_t piece_bytes(GpuRung rung, std::size_t working_set_bytes) {
  constexpr std::size_t kCopyBytes = std::size_t{64} << 20;
  if (rung == GpuRung::kFill || rung == GpuRung::kRead) return working_set_bytes;
  return std::min(working_set_bytes, rung == GpuRung::kCopy ? kCopyBytes : kDevicePieceBytes);
}

double measure_rate(GpuRung rung, std::chrono::nanoseconds time, std::size_t working_set_bytes) {
  if (const std::string why = DeviceMemory::why_unavailable(); !why.empty()) throw Error(ErrorCode::kUnavailable, why);
  if (::sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium cannot be initialized");
  DeviceMemory memory(working_set_bytes);
  if (needs_kernels(rung)) fill_with_data(memory);
  HostMemory host(rung == GpuRung::kCopy ? piece_bytes(rung, working_set_bytes) : 0);
  const PinnedRange pinned(host.bytes());
  std::ranges::fill(host.bytes(), std::byte{0x5a});
  std::optional<Decryption> opening;
  Step once;
  if (rung == GpuRung::kSecretbox || rung == GpuRung::kSecretboxKernel) {
    opening.emplace(memory);
    once = [&] { return opening->run(rung == GpuRung::kSecretboxKernel); };
  } else {
    once = step(rung, memory, host.bytes());
  }
  once();  // the first launch loads the kernel
  if (opening) opening->require_opened();
  double seconds = 0;
  double bytes = 0;
  const double enough = std::chrono::duration<double>(time).count();
  // What is not timed may take longer than what is, and the clock of a GPU may see no time between two events.
  constexpr double kSecondsMin = 1e-9, kWholeTimes = 10;
  const Clock::time_point begin = Clock::now();
  do {
    seconds += std::max(kSecondsMin, std::chrono::duration<double>(once()).count());
    bytes += static_cast<double>(working_set_bytes);
  } while (seconds < enough && std::chrono::duration<double>(Clock::now() - begin).count() < kWholeTimes * enough);
  return bytes / seconds;
}

}  // namespace tzmark::bench
