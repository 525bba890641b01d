// The pipeline's promises: chains in order, every piece through every stage once, the first error wins.
#include "codec/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <stdexcept>

namespace tzmark {
namespace {

// Pieces with chain lengths that differ; records what happened to each.
class RecordingJob {
 public:
  struct Piece {
    bool continues = false;
    std::size_t number = 0;
  };

  RecordingJob(std::vector<bool> continues) : continues_(std::move(continues)), stages_(continues_.size()) {}

  bool next(Piece& piece) {
    if (next_ == fail_next_at_) throw std::runtime_error("next");
    if (next_ == continues_.size()) return false;
    piece = {continues_[next_], next_};
    ++next_;
    return true;
  }
  void produce(Piece& piece, std::span<std::byte> buffer) {
    buffer[0] = static_cast<std::byte>(piece.number);
    step(piece, buffer, 0);
  }
  void chain(Piece& piece, std::span<std::byte> buffer) {
    if (piece.continues && stages_[piece.number - 1] < 2) out_of_order_ = true;
    step(piece, buffer, 1);
  }
  void consume(Piece& piece, std::span<std::byte> buffer) { step(piece, buffer, 2); }

  std::size_t fail_next_at_ = ~std::size_t{0};
  std::vector<std::pair<std::size_t, int>> failures_;  // piece and stage
  std::vector<std::atomic<int>>& stages() { return stages_; }
  bool out_of_order() const { return out_of_order_; }

 private:
  void step(const Piece& piece, std::span<std::byte> buffer, int stage) {
    if (buffer[0] != static_cast<std::byte>(piece.number)) out_of_order_ = true;
    for (const auto& [number, failing] : failures_) {
      if (number == piece.number && failing == stage) throw std::runtime_error(std::to_string(number));
    }
    if (stages_[piece.number].fetch_add(1) != stage) out_of_order_ = true;
  }

  std::vector<bool> continues_;
  std::vector<std::atomic<int>> stages_;
  std::size_t next_ = 0;
  std::atomic<bool> out_of_order_ = false;
};

std::vector<bool> chains(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<bool> continues(count);
  for (std::size_t i = 1; i < count; ++i) continues[i] = random() % 3 != 0;
  return continues;
}

class PipelineTest : public ::testing::TestWithParam<unsigned> {};

TEST_P(PipelineTest, EveryPieceGoesThroughEveryStageInOrder) {
  RecordingJob job(chains(500, GetParam()));
  Pipeline(job, {GetParam(), 4096}, 1).run();
  EXPECT_FALSE(job.out_of_order());
  for (const auto& stage : job.stages()) EXPECT_EQ(stage, 3);
}

TEST_P(PipelineTest, NoPiecesAreFine) {
  RecordingJob job({});
  EXPECT_NO_THROW(Pipeline(job, {GetParam(), 4096}, 1).run());
}

TEST_P(PipelineTest, TheFirstErrorInOrderWins) {
  for (int stage = 0; stage < 3; ++stage) {
    for (const std::size_t at : {0, 1, 7, 250, 499}) {
      RecordingJob job(chains(500, 5));
      job.failures_ = {{at, stage}, {std::min<std::size_t>(at + 1, 499), 0}, {499, 1}};
      try {
        Pipeline(job, {GetParam(), 4096}, 1).run();
        FAIL() << "no error";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), std::to_string(at));
      }
      EXPECT_FALSE(job.out_of_order());
      for (std::size_t i = 0; i < at; ++i) EXPECT_EQ(job.stages()[i], 3) << "pieces before the error are finished";
    }
  }
}

TEST_P(PipelineTest, AnErrorOfNextEndsTheRun) {
  RecordingJob job(chains(100, 6));
  job.fail_next_at_ = 50;
  EXPECT_THROW(Pipeline(job, {GetParam(), 4096}, 1).run(), std::runtime_error);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(job.stages()[i], 3);
}

INSTANTIATE_TEST_SUITE_P(Threads, PipelineTest, ::testing::Values(1, 2, 3, 8));

}  // namespace
}  // namespace tzmark
