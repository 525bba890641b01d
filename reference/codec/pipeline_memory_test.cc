// How the memory of buffers limits threads and the pieces in work.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "codec/pipeline.h"
#include "testing/files/memory_file.h"

namespace tzmark {
namespace {

// A piece of each thread and two more, and what each thread takes besides.
TEST(PipelineOptions, FitIntoMemoryByFewerThreads) {
  constexpr std::size_t kMib = 1 << 20, kOfThread = 2 * kMib;
  for (const std::size_t piece_bytes : {2 * kMib, 8 * kMib - 8192}) {
    for (const std::size_t memory_bytes : {std::size_t{0}, 20 * kMib, 240 * kMib}) {
      for (const unsigned threads : {1U, 2U, 16U, 64U, 300U}) {
        PipelineOptions options;
        options.threads = threads;
        options.piece_bytes = piece_bytes;
        fit_into(options, memory_bytes, kOfThread);
        EXPECT_GE(options.threads, 1U);
        EXPECT_LE(options.threads, threads);
        const std::size_t slot_bytes = piece_bytes + 8192;
        const std::size_t needed_bytes = (options.threads + 2) * slot_bytes + options.threads * kOfThread;
        if (options.threads > 1) {
          EXPECT_LE(needed_bytes, memory_bytes) << threads;
        }
        // No fewer than fit.
        if (options.threads < threads) {
          EXPECT_GT(needed_bytes + slot_bytes + kOfThread, memory_bytes) << threads;
        }
        EXPECT_LE(options.memory_bytes_max + options.threads * kOfThread,
                  std::max(memory_bytes, options.threads * kOfThread));
      }
    }
  }
}

// How many streams come together in the chain stage of one thread, where three buffers are affordable.
class StreamsTogetherJob {
 public:
  struct Piece : PipelinePiece {};
  StreamsTogetherJob(bool has_own_memory, bool is_part) : has_own_memory_(has_own_memory), is_part_(is_part) {}

  bool next(Piece& piece, const Position*) {
    if (next_ == kPieces) return false;
    piece.position = {next_++, 0};
    piece.has_own_memory = has_own_memory_;
    piece.is_part = is_part_;
    return true;
  }
  std::size_t streams_max() const { return kStreams; }
  std::size_t streams_wanted() const { return kStreams; }
  std::size_t reads(Piece&, std::span<std::byte> memory, FileTransfers&) {
    EXPECT_EQ(memory.empty(), has_own_memory_);
    return 0;
  }
  void produce(Piece&, std::span<std::byte>) {}
  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving&) {
    streams_together_ = std::max(streams_together_, steps.size());
  }
  void consume(Piece&, std::span<std::byte>) {}
  std::size_t writes(Piece&, std::span<std::byte>, FileTransfers&) { return 0; }

  static constexpr std::size_t kStreams = 8, kPieces = 100;
  std::size_t streams_together_ = 0;

 private:
  const bool has_own_memory_, is_part_;
  std::size_t next_ = 0;
};

TEST(PipelineBuffers, LimitOnlyThePiecesThatNeedThem) {
  constexpr std::size_t kLargeBytes = 1 << 20;
  const auto streams_together = [](bool has_own_memory, bool is_part) {
    StreamsTogetherJob job(has_own_memory, is_part);
    const PipelineOptions options{
        .threads = 1, .piece_bytes = kLargeBytes, .part_bytes = kLargeBytes / 4, .memory_bytes_max = 4 * kLargeBytes};
    MemoryFile file;
    Pipeline(job, options, StreamsTogetherJob::kPieces * kLargeBytes, &file).run();
    return job.streams_together_;
  };
  EXPECT_EQ(streams_together(false, false), 3U);
  EXPECT_EQ(streams_together(false, true), StreamsTogetherJob::kStreams) << "a buffer has several parts";
  EXPECT_EQ(streams_together(true, false), StreamsTogetherJob::kStreams) << "no buffer is needed";
}

}  // namespace
}  // namespace tzmark
