// The chain stage hashes the same in steps, between which transfers proceed, and at once.
#include "codec/chain_stage.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace tzmark {
namespace {

struct Piece : PipelinePiece {
  const std::vector<std::byte>* large = nullptr;
  std::size_t first = 0, count = 0;
  Sha256 digest;
};

// Hashes parts of large tensors only.
struct HashingJob {
  struct Small {};
  void open_small(Small&, ChainStep<Piece>&, std::size_t, std::vector<Sha256Part>&) {}
  void finish_small(Small&, ChainStep<Piece>&) {}
  void add_part(ChainStep<Piece>& step, std::vector<Sha256Part>& parts) {
    parts.push_back({&step.piece->digest, *step.piece->large});
  }
  void finish_part(ChainStep<Piece>&) {}
};

TEST(ChainStage, LooksAtTransfersBetweenStepsAndHashesTheSame) {
  // Of different lengths, some of them with no whole block at the end of a step.
  constexpr std::array<std::size_t, 5> kBytes = {0, 1, (1 << 20) + 13, (2 << 20) + 64, 5 << 20};
  std::mt19937_64 random(1);
  std::vector<std::vector<std::byte>> contents;
  for (const std::size_t bytes : kBytes) {
    auto& content = contents.emplace_back(bytes);
    for (std::byte& one : content) one = static_cast<std::byte>(random());
  }
  for (std::size_t count = 1; count <= contents.size(); ++count) {
    std::vector<Piece> pieces(count);
    std::vector<ChainStep<Piece>> steps;
    for (std::size_t i = 0; i < count; ++i) {
      pieces[i].large = &contents[contents.size() - 1 - i];
      steps.push_back({&pieces[i], {}, {}});
    }
    std::size_t looks = 0;
    HashingJob job;
    ChainStage(job, std::span(steps), [&] { ++looks; }).run();
    for (const Piece& piece : pieces) EXPECT_EQ(Sha256(piece.digest).finish(), sha256(*piece.large));
    std::size_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.large->size();
    EXPECT_EQ(looks, bytes / (1 << 20) - 1) << "a megabyte in between, whatever the number of streams";
  }
}

TEST(ChainStage, WithoutTransfersHashesAtOnce) {
  const std::vector<std::byte> content(3 << 20, std::byte{7});
  std::vector<Piece> pieces(2);
  std::vector<ChainStep<Piece>> steps;
  for (Piece& piece : pieces) {
    piece.large = &content;
    steps.push_back({&piece, {}, {}});
  }
  HashingJob job;
  ChainStage(job, std::span(steps), KeepMoving()).run();
  for (Piece& piece : pieces) EXPECT_EQ(piece.digest.finish(), sha256(content));
}

}  // namespace
}  // namespace tzmark
