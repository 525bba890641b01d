// Runs each step on threads for a given time; see ceilings.h.
#include "harness/ceilings.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstring>
#include <exception>
#include <vector>

#include "harness/threads.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"
#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes per step: many enough to hide the cost of a call, few enough to end close to the deadline.
constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

// The memory and the step of one thread.
class Worker {
 public:
  Worker(Rung rung, std::size_t bytes) : rung_(rung), from_(bytes), to_(rung == Rung::kMemcpy ? bytes : 0) {
    // Memory that was never written is a single page of zeros, which fits into a cache.
    std::ranges::fill(from_.bytes(), std::byte{0x5a});
    std::ranges::fill(to_.bytes(), std::byte{0});
  }

  // Processes the next piece, and returns its size.
  std::size_t step() {
    const std::span<std::byte> all = from_.bytes();
    const std::size_t begin = at_;
    const std::span<std::byte> piece = all.subspan(begin, std::min(kPieceBytes, all.size() - begin));
    at_ = begin + piece.size() == all.size() ? 0 : begin + piece.size();
    switch (rung_) {
      case Rung::kMemcpy:
        std::memcpy(to_.bytes().data() + begin, piece.data(), piece.size());
        break;
      case Rung::kCrc32:
        crc_ = crc32(crc_, piece);
        break;
      case Rung::kSha256:
        sha256_.update(piece);
        break;
      case Rung::kSecretbox:
        seal(piece);
        break;
    }
    return piece.size();
  }

  double run(Clock::duration time) {
    const Clock::time_point begin = Clock::now();
    Clock::time_point now = begin;
    double bytes = 0;
    while (now - begin < time) {
      bytes += static_cast<double>(step());
      now = Clock::now();
    }
    return bytes / std::chrono::duration<double>(now - begin).count();
  }

 private:
  void seal(std::span<std::byte> piece) {
    auto* data = reinterpret_cast<unsigned char*>(piece.data());
    crypto_secretbox_detached(data, mac_.data(), data, piece.size(), nonce_.data(), key_.data());
  }

  Rung rung_;
  HostMemory from_;
  HostMemory to_;
  std::size_t at_ = 0;
  std::uint32_t crc_ = 0;
  Sha256 sha256_;
  std::array<unsigned char, crypto_secretbox_KEYBYTES> key_{};
  std::array<unsigned char, crypto_secretbox_NONCEBYTES> nonce_{};
  std::array<unsigned char, crypto_secretbox_MACBYTES> mac_{};
};

}  // namespace

std::string_view rung_name(Rung rung) {
  switch (rung) {
    case Rung::kMemcpy:
      return "memcpy";
    case Rung::kCrc32:
      return "crc32";
    case Rung::kSha256:
      return "sha256";
    case Rung::kSecretbox:
      break;
  }
  return "secretbox";
}

double measure_rate(Rung rung, unsigned threads, std::chrono::nanoseconds time, std::size_t working_set_bytes) {
  if (::sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium cannot be initialized");
  std::vector<double> rates(threads);
  std::vector<std::exception_ptr> errors(threads);
  std::barrier filled(threads);
  const auto measure = [&](std::size_t i) {
    // Each thread fills its own memory, because the system may place memory near the core that first touches it.
    try {
      Worker worker(rung, working_set_bytes);
      worker.step();
      filled.arrive_and_wait();
      rates[i] = worker.run(time);
    } catch (...) {
      errors[i] = std::current_exception();
      filled.arrive_and_drop();
    }
  };
  {
    const auto others = start_all(
        threads - 1, [&](std::size_t i) { measure(i + 1); },
        // The missing threads and this one leave the barrier.
        [&](std::size_t missing) {
          for (std::size_t i = 0; i <= missing; ++i) filled.arrive_and_drop();
        });
    measure(0);
  }
  double sum = 0;
  for (unsigned i = 0; i < threads; ++i) {
    if (errors[i]) std::rethrow_exception(errors[i]);
    sum += rates[i];
  }
  return sum;
}

}  // namespace tzmark::bench
