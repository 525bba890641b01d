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
#include "tzmark/crypto.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"
#include "tzmark/memory.h"
#include "tzmark/secretbox.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes per step: many enough to hide the cost of a call, few enough to end close to the deadline.
constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

// The step of one thread. A copy goes from the first half of the working set to the second.
class Worker {
 public:
  Worker(Rung rung, std::span<std::byte> working_set)
      : rung_(rung), all_(rung == Rung::kMemcpy ? working_set.first(working_set.size() / 2) : working_set) {}

  // Processes the next piece, and returns its size.
  std::size_t step() {
    const std::size_t begin = at_;
    const std::span<std::byte> piece = all_.subspan(begin, std::min(kPieceBytes, all_.size() - begin));
    at_ = begin + piece.size() == all_.size() ? 0 : begin + piece.size();
    switch (rung_) {
      case Rung::kMemcpy:
        std::memcpy(all_.data() + all_.size() + begin, piece.data(), piece.size());
        break;
      case Rung::kCrc32:
        crc_ = crc32(crc_, piece);
        break;
      case Rung::kSha256:
        sha256_.update(piece);
        break;
      case Rung::kSha256Lanes:
        hash_side_by_side(piece);
        break;
      case Rung::kSecretbox:
        seal_with_libsodium(piece);
        break;
      case Rung::kSecretboxLanes:
        seal_message(key_, nonce_, piece, piece, std::as_writable_bytes(std::span(mac_)));
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
  // Each message gets its share of the piece.
  void hash_side_by_side(std::span<const std::byte> piece) {
    const std::size_t share = piece.size() / hashes_.size();
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      const bool is_last = i + 1 == hashes_.size();
      parts_[i] = {&hashes_[i], piece.subspan(i * share, is_last ? piece.size() - i * share : share)};
    }
    update_side_by_side(parts_);
  }
  void seal_with_libsodium(std::span<std::byte> piece) {
    auto* data = reinterpret_cast<unsigned char*>(piece.data());
    crypto_secretbox_detached(data, mac_.data(), data, piece.size(), nonce_.data(), key_.data());
  }

  const Rung rung_;
  const std::span<std::byte> all_;
  std::size_t at_ = 0;
  std::uint32_t crc_ = 0;
  Sha256 sha256_;
  std::vector<Sha256> hashes_{sha256_lanes()};
  std::vector<Sha256Part> parts_{hashes_.size()};
  const Key key_;
  Nonce nonce_{};
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
    case Rung::kSha256Lanes:
      return "sha256-lanes";
    case Rung::kSecretbox:
      return "secretbox";
    case Rung::kSecretboxLanes:
      break;
  }
  return "secretbox-lanes";
}

std::size_t working_set_bytes(unsigned threads, const CgroupLimits& limits) {
  if (!limits.memory_bytes) return kWorkingSetBytes;
  const std::uint64_t pieces = *limits.memory_bytes / 8 / threads / kPieceBytes;
  return std::clamp(static_cast<std::size_t>(pieces) * kPieceBytes, kPieceBytes, kWorkingSetBytes);
}

Ladder::Ladder(unsigned threads, std::size_t set_bytes) {
  if (::sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium cannot be initialized");
  for (unsigned i = 0; i < threads; ++i) working_sets_.emplace_back(set_bytes);
}

double Ladder::measure(Rung rung, std::chrono::nanoseconds time) {
  const unsigned threads = this->threads();
  std::vector<double> rates(threads);
  std::vector<std::exception_ptr> errors(threads);
  std::barrier filled(threads);
  const auto measure = [&](std::size_t i) {
    try {
      const std::span<std::byte> working_set = working_sets_[i].bytes();
      // Each thread fills its own memory, because the system may place memory near the core that first touches it.
      // Memory that was never written is a single page of zeros, which fits into a cache.
      if (!is_filled_) std::ranges::fill(working_set, std::byte{0x5a});
      Worker worker(rung, working_set);
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
  is_filled_ = true;
  return sum;
}

}  // namespace tzmark::bench
