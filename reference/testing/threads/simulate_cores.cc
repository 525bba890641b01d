// simulate_cores: what the pipeline makes of more cores than this machine has. Not installed.
//
// usage: simulate_cores llama|COUNT SCALE-MIB SLOWNESS THREADS [...]
//
// Loads the tensors of Llama 3.1 8B, or so many equal ones, scaled to that size, by so many threads, with sleeps in the
// place of reads and hashes: a thread that sleeps needs no core. The sleeps are SLOWNESS times as long as what they
// stand for, so that what this machine needs to wake threads hardly counts. Prints for each number of threads, of loads
// into memory and of checks that keep nothing, without hashes and with both:
//   rate     the share of that of threads which never wait, and which all hash as many tensors side by side as suits
//   streams  how many tensors were hashed side by side, as a mean over the bytes
// What it cannot show is what cores cost each other: caches, memory and contended locks.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "codec/lanes.h"
#include "codec/pipeline.h"
#include "testing/files/memory_file.h"

namespace tzmark {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kPieceBytes = 2 << 20;

// Of the order of what one core of a server does while all others do the same; only their ratios matter.
constexpr double kReadBytesPerS = 2.2e9, kCrc32BytesPerS = 20e9, kOneStreamBytesPerS = 1.1e9, kStreamsBytesPerS = 1.9e9;
constexpr std::size_t kStreams = 8;

double sha256_bytes_per_s(std::size_t streams) {
  const double share = static_cast<double>(std::min(streams, kStreams)) / static_cast<double>(kStreams);
  return std::max(kOneStreamBytesPerS, share * kStreamsBytesPerS);
}

std::vector<std::uint64_t> tensors_of_llama(std::uint64_t bytes) {
  constexpr std::uint64_t kHidden = 4096, kKeys = 1024, kInner = 14336, kVocabulary = 128256;
  std::vector<std::uint64_t> lengths{kVocabulary * kHidden};
  for (int layer = 0; layer < 32; ++layer) {
    for (const std::uint64_t rows : {kInner, kInner, kInner, std::uint64_t{1}, kKeys, kHidden, kHidden, kKeys}) {
      lengths.push_back(rows * kHidden);
    }
  }
  lengths.push_back(kVocabulary * kHidden);
  std::uint64_t total = 0;
  for (const std::uint64_t length : lengths) total += length;
  for (std::uint64_t& length : lengths) {
    length = static_cast<std::uint64_t>(static_cast<double>(length) * static_cast<double>(bytes) /
                                        static_cast<double>(total));
  }
  return lengths;
}

struct LargeTensor {
  Chain chain;
  std::uint64_t length = 0;

  std::uint64_t data_length() const { return length; }
  std::size_t part_bytes(std::uint64_t, std::size_t most) const { return most; }
  std::size_t header_bytes() const { return 0; }
};

class SleepingLoad {
 public:
  struct Piece : TensorPiece<LargeTensor> {
    std::uint64_t run_bytes = 0;
  };

  SleepingLoad(const std::vector<std::uint64_t>& lengths, unsigned threads, bool hashes, bool into_memory,
               double slowness)
      : lengths_(lengths),
        hashes_(hashes),
        into_memory_(into_memory),
        slowness_(slowness),
        lanes_(
            0, lengths.size(), threads, hashes,
            {.part_bytes = kPieceBytes, .lane_part_bytes = turn_bytes_for(kPieceBytes, threads), .streams = kStreams},
            hashes ? critical_tensors(0, lengths.size(), threads, kPieceBytes + 1,
                                      [&](std::size_t i) { return lengths[i]; })
                   : std::vector<std::size_t>()) {}

  std::size_t lane_part_bytes() const { return lanes_.lane_part_bytes(); }
  double mean_streams() const {
    return bytes_ == 0 ? 0 : static_cast<double>(bytes_by_streams_) / static_cast<double>(bytes_);
  }

  bool next(Piece& piece, const Position* before) {
    const auto add_to_run = [&](std::size_t i) {
      if (piece.run_bytes + lengths_[i] > kPieceBytes) return false;
      piece.run_bytes += lengths_[i];
      return true;
    };
    const auto open = [&](std::size_t i) {
      auto large = std::make_shared<LargeTensor>();
      large->length = lengths_[i];
      return large;
    };
    if (!lanes_.next(piece, before, add_to_run, open)) return false;
    piece.has_own_memory = into_memory_ && piece.large;
    return true;
  }
  std::size_t streams_max() const { return lanes_.streams_max(); }
  std::size_t streams_wanted() const { return lanes_.streams_wanted(); }
  std::size_t reads(Piece& piece, std::span<std::byte>, FileTransfers&) {
    sleep(bytes_of(piece), kReadBytesPerS);
    return 0;
  }
  void produce(Piece& piece, std::span<std::byte>) {
    if (hashes_) sleep(bytes_of(piece), kCrc32BytesPerS);
  }
  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving&) {
    if (!hashes_) return;
    std::uint64_t bytes = 0;
    std::size_t streams = 0;
    for (const ChainStep<Piece>& step : steps) {
      bytes += bytes_of(*step.piece);
      streams += step.piece->streams;
    }
    bytes_ += bytes;
    bytes_by_streams_ += bytes * streams;
    sleep(bytes, sha256_bytes_per_s(streams));
  }
  void consume(Piece&, std::span<std::byte>) {}
  std::size_t writes(Piece&, std::span<std::byte>, FileTransfers&) { return 0; }

 private:
  static std::uint64_t bytes_of(const Piece& piece) { return piece.large ? piece.length : piece.run_bytes; }

  void sleep(std::uint64_t bytes, double bytes_per_s) const {
    std::this_thread::sleep_for(Seconds(slowness_ * static_cast<double>(bytes) / bytes_per_s));
  }

  const std::vector<std::uint64_t>& lengths_;
  const bool hashes_, into_memory_;
  const double slowness_;
  Lanes<LargeTensor> lanes_;
  std::atomic<std::uint64_t> bytes_ = 0, bytes_by_streams_ = 0;
};

// Prints the row of one number of threads.
void simulate(const std::vector<std::uint64_t>& lengths, unsigned threads, double slowness) {
  std::uint64_t bytes = 0;
  for (const std::uint64_t length : lengths) bytes += length;
  fmt::print("{:7}", threads);
  for (const bool into_memory : {true, false}) {
    for (const bool hashes : {false, true}) {
      SleepingLoad load(lengths, threads, hashes, into_memory, slowness);
      PipelineOptions options;
      options.threads = threads;
      options.piece_bytes = kPieceBytes;
      options.part_bytes = load.lane_part_bytes();
      MemoryFile file;
      const auto begin = Clock::now();
      Pipeline(load, options, bytes, &file).run();
      const Seconds elapsed = Clock::now() - begin;
      const double s_per_byte = 1 / kReadBytesPerS + (hashes ? 1 / kCrc32BytesPerS + 1 / kStreamsBytesPerS : 0);
      const double ideal_s = slowness * static_cast<double>(bytes) * s_per_byte / threads;
      fmt::print("  {:9.2f}", ideal_s / elapsed.count());
      if (hashes) fmt::print(" {:9.1f}", load.mean_streams());
    }
  }
  fmt::print("\n");
}

template <typename Number>
Number number_of(const char* text, Number least, Number most) {
  Number number{};
  const char* const text_end = text + std::strlen(text);
  const auto [end, error] = std::from_chars(text, text_end, number);
  if (error != std::errc() || end != text_end || !(number >= least) || number > most) {
    throw std::invalid_argument(fmt::format("'{}' is not a number from {} to {}", text, least, most));
  }
  return number;
}

int run(int argc, char** argv) {
  if (argc < 5) throw std::invalid_argument("usage: simulate_cores llama|COUNT SCALE-MIB SLOWNESS THREADS [...]");
  const std::uint64_t bytes = number_of<std::uint64_t>(argv[2], 1, 1 << 20) << 20;
  std::vector<std::uint64_t> lengths;
  if (argv[1] == std::string_view("llama")) {
    lengths = tensors_of_llama(bytes);
  } else {
    const auto count = number_of<std::size_t>(argv[1], 1, 100'000);
    lengths.assign(count, bytes / count);
  }
  const auto slowness = number_of<double>(argv[3], 1, 1000);
  std::vector<unsigned> thread_counts;
  for (int i = 4; i < argc; ++i) thread_counts.push_back(number_of<unsigned>(argv[i], 1, 1024));
  fmt::print("{:7}  {:>30}  {:>30}\n{:>7}  {:>9}  {:>9} {:>9}  {:>9}  {:>9} {:>9}\n", "", "loads into memory",
             "checks that keep nothing", "threads", "no hashes", "both", "streams", "no hashes", "both", "streams");
  for (const unsigned threads : thread_counts) simulate(lengths, threads, slowness);
  return 0;
}

}  // namespace
}  // namespace tzmark

int main(int argc, char** argv) {
  try {
    return tzmark::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "simulate_cores: {}\n", error.what());
    return 2;
  }
}
