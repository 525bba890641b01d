// Reads, computes and writes in pieces of a fixed size, with several threads and many transfers in flight.
//
// A job deals out pieces in order. Each piece has a buffer and passes through five stages:
//   reads    transfers that fill the buffer; the I/O path keeps them in flight while threads compute
//   produce  any thread, any order: decrypts, and hashes what can be hashed independently
//   chain    in order and one at a time within a chain: what depends on the previous piece, such as SHA-256
//   consume  any thread, any order: encrypts, or delivers the result
//   writes   transfers that empty the buffer
// The consume stage may only start a copy out of the buffer, such as one to a GPU: a thread then goes on, and waits for
// the copy when it has no other work, or needs the buffer.
// A piece whose writes do not depend on its chain stage may be written first, so that a device works from the start:
// its chain stage then comes while its transfers are in flight, or after them.
// Different chains run in parallel. So a single huge tensor uses every core for everything but its SHA-256, and several
// tensors use every core for that too. A thread takes pieces of several chains at once, as many streams as the job
// wants, because SHA-256 of several streams together is faster than of one after another; it takes fewer only if it has
// nothing else to do. The error at the lowest position wins: pieces before it are finished, later ones are dropped.
//
// piece.h: what a job deals out. pipeline_state.h: where each piece stands. schedule.h: which step comes next.
// pipeline_threads.h: who takes it.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "codec/piece.h"
#include "codec/pipeline_threads.h"

namespace tzmark {

template <PipelineJob Job>
class Pipeline : PieceWork {
 public:
  // See PipelineThreads.
  Pipeline(Job& job, const PipelineOptions& options, std::uint64_t work_bytes, File* file)
      : job_(job), threads_(options, work_bytes, file, job.streams_max()), pieces_(threads_.slot_count()) {}

  // Returns when all pieces have passed all stages. Throws the error at the lowest position.
  void run() { threads_.run(*this); }
  // Where that error was: pieces before it have passed all stages. After run.
  Position error_position() const { return threads_.error_position(); }

 private:
  using Piece = typename Job::Piece;

  const PipelinePiece* next(std::size_t slot, const Position* before) override {
    return job_.next(pieces_[slot], before) ? &pieces_[slot] : nullptr;
  }
  std::size_t streams_wanted() const override { return job_.streams_wanted(); }
  void release(std::size_t slot) override { pieces_[slot] = {}; }

  std::size_t reads(std::size_t slot, std::span<std::byte> memory, FileTransfers& transfers) override {
    if (pieces_[slot].failure) std::rethrow_exception(pieces_[slot].failure);
    return job_.reads(pieces_[slot], memory, transfers);
  }
  void produce(std::size_t slot, std::span<std::byte> memory) override { job_.produce(pieces_[slot], memory); }
  void chain(std::span<Step> steps, const KeepMoving& keep_moving) override {
    std::array<ChainStep<Piece>, PipelineThreads::kStepsMax> of_job;
    const auto used = std::span(of_job).first(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) used[i] = {&pieces_[steps[i].slot], steps[i].memory, {}};
    try {
      job_.chain(used, keep_moving);
    } catch (...) {
      used[0].error = std::current_exception();
    }
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i].error = used[i].error;
  }
  void consume(std::size_t slot, std::span<std::byte> memory) override { job_.consume(pieces_[slot], memory); }
  bool is_lent(std::size_t slot) const override { return pieces_[slot].borrower != nullptr; }
  void take_back(std::size_t slot) override {
    if constexpr (LendingJob<Job>) job_.take_back(pieces_[slot]);
  }
  std::size_t writes(std::size_t slot, std::span<std::byte> memory, FileTransfers& transfers) override {
    if (pieces_[slot].failure) std::rethrow_exception(pieces_[slot].failure);
    return job_.writes(pieces_[slot], memory, transfers);
  }

  Job& job_;
  PipelineThreads threads_;
  std::vector<Piece> pieces_;
};

}  // namespace tzmark
