// The pipeline's promises: chains in order, every piece through every stage once, the first error wins.
#include "codec/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "testing/faults/faulty_file.h"
#include "testing/faults/thread_limit.h"
#include "testing/files/memory_file.h"

namespace tzmark {
namespace {

constexpr std::size_t kPieceBytes = 4096;

// Pieces of several chains, or of none, over two halves of a file: the lower half is read, the upper one written.
// Records what happened to each.
class RecordingJob {
 public:
  struct Piece : PipelinePiece {
    std::size_t number = 0;
  };

  // chains: of each piece its chain, or -1. late: whether the chain stage follows the others.
  RecordingJob(std::vector<int> chains, File* file, bool late)
      : chain_of_(std::move(chains)),
        file_(file),
        late_(late),
        stages_(chain_of_.size()),
        stages_done_(chain_of_.size()) {}

  bool next(Piece& piece, const Position* before) {
    if (next_ == fail_next_at_) throw std::runtime_error("next");
    if (next_ == chain_of_.size()) return false;
    piece.number = next_;
    piece.position = {next_, 0};
    if (before != nullptr && *before < piece.position) return false;
    if (const int chain = chain_of_[next_]; chain >= 0) {
      piece.chain = &chains_[chain];
      piece.in_chain = counts_[chain]++;
    } else {
      piece.streams = streams_of_chainless_;
    }
    piece.chains_late = late_;
    piece.is_part = part_each_ != 0 && next_ % part_each_ == 0;
    ++next_;
    return true;
  }
  std::size_t reads(Piece& piece, std::span<std::byte> memory, FileTransfers& transfers) {
    step(piece, 0);
    if (file_ == nullptr) return 0;
    plan(transfers, piece.number * kPieceBytes, memory);
    return 2;
  }
  void produce(Piece& piece, std::span<std::byte>) { step(piece, 1); }
  std::size_t streams_max() const { return streams_max_; }
  std::size_t streams_wanted() const { return (streams_max_ + 1) / 2; }
  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving& keep_moving) {
    if (keep_moving) keep_moving();
    if (steps.size() > streams_wanted()) too_many_ = true;
    std::vector<const Chain*> chains;
    for (ChainStep<Piece>& one : steps) {
      Piece& piece = *one.piece;
      if (piece.chain != nullptr && piece.chain->next != piece.in_chain) out_of_order_ = true;
      if (piece.chain != nullptr && std::ranges::count(chains, piece.chain) > 0) out_of_order_ = true;
      chains.push_back(piece.chain);
      try {
        step(piece, 2);
      } catch (...) {
        one.error = std::current_exception();
      }
    }
  }
  void consume(Piece& piece, std::span<std::byte>) {
    if (piece.streams == 0) step(piece, 2);
    step(piece, 3);
  }
  std::size_t writes(Piece& piece, std::span<std::byte> memory, FileTransfers& transfers) {
    step(piece, 4);
    if (file_ == nullptr) return 0;
    plan(transfers, (chain_of_.size() + piece.number) * kPieceBytes, memory);
    return 2;
  }

  std::size_t fail_next_at_ = ~std::size_t{0};
  std::vector<std::pair<std::size_t, int>> failures_;  // piece and stage
  std::vector<std::atomic<int>>& stages() { return stages_; }
  std::size_t next_number() const { return next_; }
  std::size_t streams_max_ = 7;
  std::size_t streams_of_chainless_ = 1;
  std::size_t part_each_ = 0;  // every such piece is a part; 0: none
  bool out_of_order() const { return out_of_order_; }
  bool too_many() const { return too_many_; }

 private:
  void plan(FileTransfers& transfers, std::uint64_t offset, std::span<std::byte> memory) {
    transfers[0].file = transfers[1].file = file_;
    transfers[0].transfer.offset = offset;
    transfers[0].transfer.memory = memory.first(100);
    transfers[1].transfer.offset = offset + 100;
    transfers[1].transfer.memory = memory.subspan(100, kPieceBytes - 100);
  }

  void step(Piece& piece, int stage) {
    for (const auto& [number, failing] : failures_) {
      if (number == piece.number && failing == stage) throw std::runtime_error(std::to_string(number));
    }
    ++stages_[piece.number];
    const unsigned before = stages_done_[piece.number].fetch_or(1U << stage);
    const bool is_late = late_ && piece.streams > 0;
    // Of stages 0 to 4 those that must precede.
    const std::array<unsigned, 5> needs = {0b00000, 0b00001, is_late ? 0b01011U : 0b00011U,
                                           is_late ? 0b00011U : 0b00111U, 0b01011};
    const auto number = static_cast<std::size_t>(stage);
    if ((before & needs[number]) != needs[number] || (before >> stage & 1) != 0) out_of_order_ = true;
  }

  const std::vector<int> chain_of_;
  File* const file_;
  const bool late_;
  std::array<Chain, 3> chains_;
  std::array<std::uint64_t, 3> counts_{};
  std::vector<std::atomic<int>> stages_;
  std::vector<std::atomic<unsigned>> stages_done_;  // a bit for each
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> out_of_order_ = false;
  std::atomic<bool> too_many_ = false;
};

std::vector<int> chains(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> chain_of(count);
  for (int& chain : chain_of) chain = static_cast<int>(random() % 4) - 1;
  return chain_of;
}

// Moves bytes when it is asked for what is through, and the last started first: as little in order as a path may be.
class LazyFile final : public File {
 public:
  // breaks_at: the number of the wait, over all queues, at which its queue breaks.
  explicit LazyFile(File& inner, int breaks_at = -1) : inner_(inner), waits_left_(breaks_at) {}
  std::string_view io_path() const override { return "lazy"; }
  std::uint64_t size() const override { return inner_.size(); }
  bool is_asynchronous() const override { return true; }
  unsigned queue_depth_default() const override { return 6; }
  void break_at_next_wait() { waits_left_ = 0; }
  std::unique_ptr<TransferQueue> make_queue(unsigned depth) override {
    class Queue final : public TransferQueue {
     public:
      Queue(LazyFile& lazy, unsigned depth) : lazy_(lazy), depth_(depth) {}
      unsigned depth() const override { return depth_; }
      unsigned in_flight() const override { return static_cast<unsigned>(started_.size()); }
      void start(Transfer& transfer) override { started_.push_back(&transfer); }
      Transfer& wait() override {
        if (lazy_.waits_left_.fetch_sub(1) == 0) throw Error(ErrorCode::kResource, "broken");
        Transfer& last = *started_.back();
        started_.pop_back();
        const auto moves = lazy_.inner_.make_queue(1);
        moves->start(last);
        return moves->wait();
      }
      // Every other time nothing is through yet.
      Transfer* poll() override {
        ready_ = !ready_;
        return ready_ && !started_.empty() ? &wait() : nullptr;
      }

     private:
      LazyFile& lazy_;
      const unsigned depth_;
      std::vector<Transfer*> started_;
      bool ready_ = false;
    };
    return std::make_unique<Queue>(*this, depth);
  }

 protected:
  std::size_t read_some(std::uint64_t, MutableBuffer) override { throw std::logic_error("not through a queue"); }
  std::size_t write_some(std::uint64_t, ConstBuffer) override { throw std::logic_error("not through a queue"); }
  void sync_all() override {}

 private:
  File& inner_;
  std::atomic<int> waits_left_;
};

constexpr std::size_t kPieces = 300;
constexpr std::uint64_t kWorkBytes = kPieces * kPieceBytes;

class PipelineTest : public ::testing::TestWithParam<std::tuple<unsigned, bool>> {
 protected:
  PipelineTest() : content_(kWorkBytes) {
    std::mt19937_64 random(1);
    for (std::byte& b : content_) b = static_cast<std::byte>(random());
    // The half that is written is there from the beginning: a memory file must not grow during reads.
    content_.resize(2 * kWorkBytes);
  }

  static unsigned threads() { return std::get<0>(GetParam()); }
  static bool late() { return std::get<1>(GetParam()); }
  static PipelineOptions options() { return {.threads = threads(), .piece_bytes = kPieceBytes}; }

  // Without a file, over one whose calls move the bytes, and over one whose queues do.
  template <typename Action>
  void on_every_kind_of_file(Action&& action) {
    action(nullptr);
    MemoryFile memory(content_);
    action(&memory);
    LazyFile lazy(memory);
    action(&lazy);
  }

  std::vector<std::byte> content_;
};

TEST_P(PipelineTest, EveryPieceGoesThroughEveryStageInOrder) {
  on_every_kind_of_file([](File* file) {
    RecordingJob job(chains(kPieces, threads()), file, late());
    Pipeline(job, options(), kWorkBytes, file).run();
    EXPECT_FALSE(job.out_of_order());
    EXPECT_FALSE(job.too_many());
    for (const auto& stage : job.stages()) EXPECT_EQ(stage, 5);
  });
}

// So few buffers that pieces wait for those of others, which have to come back whether a piece ends or fails.
TEST_P(PipelineTest, PiecesWaitForBuffers) {
  on_every_kind_of_file([](File* file) {
    for (const int failing_stage : {-1, 0, 1, 2, 3, 4}) {
      RecordingJob job(chains(kPieces, threads()), file, late());
      job.part_each_ = 3;
      if (failing_stage >= 0) job.failures_ = {{150, failing_stage}};
      PipelineOptions few = options();
      few.piece_bytes = 8 * kPieceBytes;
      few.part_bytes = kPieceBytes;
      few.memory_bytes_max = 0;
      const auto run = [&] { Pipeline(job, few, kWorkBytes, file).run(); };
      if (failing_stage < 0) {
        EXPECT_NO_THROW(run());
      } else {
        EXPECT_THROW(run(), std::runtime_error);
      }
      EXPECT_FALSE(job.out_of_order());
      for (std::size_t i = 0; i < (failing_stage < 0 ? kPieces : 150); ++i) EXPECT_EQ(job.stages()[i], 5);
    }
  });
}

TEST_P(PipelineTest, PiecesWithoutStreamsSkipTheChain) {
  on_every_kind_of_file([](File* file) {
    RecordingJob job(chains(kPieces, threads()), file, late());
    job.streams_of_chainless_ = 0;
    Pipeline(job, options(), kWorkBytes, file).run();
    EXPECT_FALSE(job.out_of_order());
    for (std::size_t i = 0; i < kPieces; ++i) EXPECT_EQ(job.stages()[i], 5);
  });
}

TEST_P(PipelineTest, MovesTheBytesOfEveryPiece) {
  for (const bool is_lazy : {false, true}) {
    MemoryFile memory(content_);
    LazyFile lazy(memory);
    File* const file = is_lazy ? static_cast<File*>(&lazy) : &memory;
    RecordingJob job(chains(kPieces, 9), file, late());
    Pipeline(job, options(), kWorkBytes, file).run();
    const auto halves = std::span(memory.content());
    EXPECT_TRUE(std::ranges::equal(halves.first(kWorkBytes), halves.subspan(kWorkBytes)));
  }
}

TEST_P(PipelineTest, NoPiecesAreFine) {
  on_every_kind_of_file([](File* file) {
    RecordingJob job({}, file, late());
    EXPECT_NO_THROW(Pipeline(job, options(), 0, file).run());
  });
}

TEST_P(PipelineTest, TheFirstErrorInOrderWins) {
  on_every_kind_of_file([](File* file) {
    for (int stage = 0; stage < 5; ++stage) {
      for (const std::size_t at : {0, 1, 7, 150, 299}) {
        RecordingJob job(chains(kPieces, 5), file, late());
        job.failures_ = {{at, stage}, {std::min<std::size_t>(at + 1, kPieces - 1), 0}, {kPieces - 1, 1}};
        try {
          Pipeline(job, options(), kWorkBytes, file).run();
          FAIL() << "no error";
        } catch (const std::runtime_error& error) {
          EXPECT_EQ(error.what(), std::to_string(at));
        }
        EXPECT_FALSE(job.out_of_order());
        for (std::size_t i = 0; i < at; ++i) EXPECT_EQ(job.stages()[i], 5) << "pieces before the error are finished";
      }
    }
  });
}

TEST_P(PipelineTest, AFailedTransferIsTheErrorOfItsPiece) {
  using Fault = FaultyFile::Fault;
  for (const std::uint64_t call : {0, 1, 77, 600, 1199}) {
    for (const bool is_lazy : {false, true}) {
      MemoryFile memory(content_);
      FaultyFile faulty(memory, Fault::kError, call);
      LazyFile lazy(faulty);
      File* const file = is_lazy ? static_cast<File*>(&lazy) : &faulty;
      RecordingJob job(chains(kPieces, 5), file, late());
      EXPECT_THROW(Pipeline(job, options(), kWorkBytes, file).run(), Error);
    }
  }
}

TEST_P(PipelineTest, AQueueThatBreaksEndsTheRun) {
  MemoryFile memory(content_);
  for (const int breaks_at : {0, 1, 50}) {
    LazyFile lazy(memory, breaks_at);
    RecordingJob job(chains(kPieces, 5), &lazy, late());
    try {
      Pipeline(job, options(), kWorkBytes, &lazy).run();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResource);
    }
  }
}

TEST_P(PipelineTest, AnErrorOfNextEndsTheRun) {
  on_every_kind_of_file([](File* file) {
    RecordingJob job(chains(100, 6), file, late());
    job.fail_next_at_ = 50;
    EXPECT_THROW(Pipeline(job, options(), kWorkBytes, file).run(), std::runtime_error);
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(job.stages()[i], 5);
  });
}

TEST_P(PipelineTest, FewerThreadsThanAskedForDoAllOfIt) {
  for (const int limit : {0, 1}) {
    on_every_kind_of_file([limit](File* file) {
      const test::ThreadLimit few(limit);
      RecordingJob job(chains(kPieces, threads()), file, late());
      Pipeline(job, options(), kWorkBytes, file).run();
      EXPECT_FALSE(job.out_of_order());
      for (const auto& stage : job.stages()) EXPECT_EQ(stage, 5);
      EXPECT_EQ(few.refused() > 0, threads() > static_cast<unsigned>(limit) + 1);
    });
  }
}

TEST_P(PipelineTest, WithFewerThreadsTheFirstErrorInOrderWins) {
  on_every_kind_of_file([](File* file) {
    const test::ThreadLimit few(1);
    RecordingJob job(chains(kPieces, 5), file, late());
    job.failures_ = {{150, 3}, {151, 0}};
    EXPECT_THROW(Pipeline(job, options(), kWorkBytes, file).run(), std::runtime_error);
    for (std::size_t i = 0; i < 150; ++i) EXPECT_EQ(job.stages()[i], 5);
  });
}

INSTANTIATE_TEST_SUITE_P(ThreadsAndLate, PipelineTest,
                         ::testing::Combine(::testing::Values(1U, 2U, 3U, 8U), ::testing::Bool()));

// Writes end only when enough pieces are through their chain stage.
class SlowToWriteFile final : public File {
 public:
  SlowToWriteFile(unsigned depth, const std::function<bool()>& may_end) : depth_(depth), may_end_(may_end) {}
  std::string_view io_path() const override { return "slow"; }
  std::uint64_t size() const override { return 2 * kWorkBytes; }
  unsigned queue_depth_default() const override { return depth_; }
  int most_at_once() const { return most_; }
  bool gave_up() const { return gave_up_; }

 protected:
  std::size_t read_some(std::uint64_t, MutableBuffer out) override { return out.size; }
  std::size_t write_some(std::uint64_t, ConstBuffer in) override {
    const int now = ++writing_;
    for (int most = most_; most < now && !most_.compare_exchange_weak(most, now);) {
    }
    for (int waits = 0; !may_end_() && !gave_up_; ++waits) {
      if (waits == 10'000) gave_up_ = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    --writing_;
    return in.size;
  }
  void sync_all() override {}

 private:
  const unsigned depth_;
  const std::function<bool()> may_end_;
  std::atomic<int> writing_ = 0, most_ = 0;
  std::atomic<bool> gave_up_ = false;
};

TEST(PipelineWritesTest, LatePiecesAreHashedWhileTheyAreWritten) {
  RecordingJob* running = nullptr;
  SlowToWriteFile file(0, [&] { return running->stages()[0] == 5; });
  RecordingJob job(std::vector<int>(20, 0), &file, true);
  running = &job;
  job.streams_max_ = 1;
  Pipeline(job, {.threads = 2, .piece_bytes = kPieceBytes}, kWorkBytes, &file).run();
  EXPECT_FALSE(file.gave_up());
  EXPECT_FALSE(job.out_of_order());
}

TEST(PipelineWritesTest, WorkersShareTheTransfersOfOnePiece) {
  const SlowToWriteFile* written = nullptr;
  SlowToWriteFile file(2, [&] { return written->most_at_once() >= 2; });
  written = &file;
  RecordingJob job({-1}, &file, false);
  Pipeline(job, {.threads = 1, .piece_bytes = kPieceBytes, .reads = false}, kWorkBytes, &file).run();
  EXPECT_FALSE(file.gave_up());
  EXPECT_EQ(job.stages()[0], 5);
}

TEST(PipelineWritesTest, ThreadsComputeWhileAllWritesAreInFlight) {
  constexpr unsigned kDepth = 3;
  RecordingJob* running = nullptr;
  // The first write may begin long before the threads of the others do.
  const SlowToWriteFile* written = nullptr;
  SlowToWriteFile file(kDepth,
                       [&] { return written->most_at_once() >= int{kDepth} && running->stages()[kDepth + 1] >= 4; });
  written = &file;
  RecordingJob job(std::vector<int>(20, -1), &file, false);
  running = &job;
  Pipeline(job, {.threads = 1, .piece_bytes = kPieceBytes, .reads = false}, kWorkBytes, &file).run();
  EXPECT_FALSE(file.gave_up());
  EXPECT_EQ(file.most_at_once(), kDepth) << "not more than asked for";
}

// The transfers of its first queue are through once the second one has some, and those of the second one when they may
// be.
class UnequalFile final : public File {
 public:
  explicit UnequalFile(const std::atomic<bool>& may_end) : may_end_(may_end) {}
  std::string_view io_path() const override { return "unequal"; }
  std::uint64_t size() const override { return 2 * kWorkBytes; }
  bool is_asynchronous() const override { return true; }
  std::unique_ptr<TransferQueue> make_queue(unsigned depth) override {
    const bool is_first = queues_++ == 0;
    if (!is_first) second_ = std::this_thread::get_id();
    return std::make_unique<Queue>(*this, depth, is_first);
  }

  // Called by the first thread while it computes, for which the second one waits. Whether the second one has probably
  // nothing to do, or is this one.
  bool second_is_idle() {
    if (second_.load() == std::this_thread::get_id()) return true;
    first_computes_ = true;
    return looks_ >= kLooks;
  }

 protected:
  std::size_t read_some(std::uint64_t, MutableBuffer) override { throw std::logic_error("not through a queue"); }
  std::size_t write_some(std::uint64_t, ConstBuffer) override { throw std::logic_error("not through a queue"); }
  void sync_all() override {}

 private:
  class Queue final : public TransferQueue {
   public:
    Queue(UnequalFile& file, unsigned depth, bool is_first) : file_(file), depth_(depth), is_first_(is_first) {}
    unsigned depth() const override { return depth_; }
    unsigned in_flight() const override { return static_cast<unsigned>(started_.size()); }
    void start(Transfer& transfer) override {
      if (!is_first_) {
        file_.second_starts_ = true;
        while (!file_.may_end_ && !file_.first_computes_) std::this_thread::yield();
      }
      started_.push_back(&transfer);
    }
    Transfer& wait() override {
      if (!is_first_) file_.looks_ = kLooks;
      while (!is_through()) std::this_thread::yield();
      return take();
    }
    Transfer* poll() override {
      if (!is_first_) ++file_.looks_;
      return !started_.empty() && is_through() ? &take() : nullptr;
    }

   private:
    bool is_through() const { return file_.may_end_ || (is_first_ && file_.second_starts_); }
    Transfer& take() {
      Transfer& first = *started_.front();
      started_.erase(started_.begin());
      return first;
    }

    UnequalFile& file_;
    const unsigned depth_;
    const bool is_first_;
    std::vector<Transfer*> started_;
  };
  static constexpr int kLooks = 3;

  const std::atomic<bool>& may_end_;
  std::atomic<int> queues_ = 0, looks_ = 0;
  std::atomic<bool> second_starts_ = false, first_computes_ = false;
  std::atomic<std::thread::id> second_{};
};

// Once the second thread has nothing to do, its consume stages need both threads at once.
struct MeetingJob : RecordingJob {
  MeetingJob(std::size_t pieces, UnequalFile& file, std::atomic<bool>& met)
      : RecordingJob(std::vector<int>(pieces, -1), &file, false), file_(file), met_(met) {}
  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving& keep_moving) {
    wait_until([&] { return file_.second_is_idle() || consuming_ > 0; });
    RecordingJob::chain(steps, keep_moving);
  }
  void consume(Piece& piece, std::span<std::byte> memory) {
    if (++consuming_ == 2) met_ = true;
    wait_until([] { return false; });
    RecordingJob::consume(piece, memory);
  }
  template <typename Condition>
  void wait_until(const Condition& condition) {
    constexpr std::chrono::seconds kPatience{5};
    for (const auto begin = std::chrono::steady_clock::now(); !met_ && !condition();) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (std::chrono::steady_clock::now() - begin < kPatience) continue;
      gave_up_ = true;
      met_ = true;  // lets the other thread's transfers end
    }
  }
  UnequalFile& file_;
  std::atomic<bool>& met_;
  std::atomic<int> consuming_ = 0;
  std::atomic<bool> gave_up_ = false;
};

TEST(PipelineQueuesTest, AThreadWhoseTransfersAreInFlightTakesTheWorkOfAnother) {
  constexpr std::size_t kCount = 3;  // few, so that the second thread is soon without work
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> met = false;
    UnequalFile file(met);
    MeetingJob job(kCount, file, met);
    Pipeline(job, {.threads = 2, .piece_bytes = kPieceBytes, .queue_depth = 8}, kWorkBytes, &file).run();
    EXPECT_FALSE(job.gave_up_);
    if (job.gave_up_) break;
  }
}

// The queue breaks at the transfers of one piece, for want of memory say.
class BreakingFile final : public File {
 public:
  BreakingFile(bool is_asynchronous, std::uint64_t bad_offset, std::atomic<bool>& is_broken)
      : is_asynchronous_(is_asynchronous), bad_offset_(bad_offset), is_broken_(is_broken) {}
  std::string_view io_path() const override { return "breaking"; }
  bool is_asynchronous() const override { return is_asynchronous_; }
  std::uint64_t size() const override { return 2 * kWorkBytes; }
  std::unique_ptr<TransferQueue> make_queue(unsigned) override {
    class Queue final : public TransferQueue {
     public:
      explicit Queue(BreakingFile& file) : file_(file) {}
      unsigned depth() const override { return 1; }
      unsigned in_flight() const override { return done_ != nullptr ? 1 : 0; }
      void start(Transfer& transfer) override {
        if (transfer.offset == file_.bad_offset_) {
          file_.is_broken_ = true;
          throw Error(ErrorCode::kResource, "broken");
        }
        done_ = &transfer;
      }
      Transfer& wait() override { return *std::exchange(done_, nullptr); }
      Transfer* poll() override { return std::exchange(done_, nullptr); }

     private:
      BreakingFile& file_;
      Transfer* done_ = nullptr;
    };
    return std::make_unique<Queue>(*this);
  }

 protected:
  std::size_t read_some(std::uint64_t, MutableBuffer) override { throw std::logic_error("not through a queue"); }
  std::size_t write_some(std::uint64_t, ConstBuffer) override { throw std::logic_error("not through a queue"); }
  void sync_all() override {}

 private:
  const bool is_asynchronous_;
  const std::uint64_t bad_offset_;
  std::atomic<bool>& is_broken_;
};

// Its first piece is ready to be written when the queue of another has broken.
struct LateFirstPieceJob : RecordingJob {
  LateFirstPieceJob(std::size_t pieces, File* file, const std::atomic<bool>& goes_on)
      : RecordingJob(std::vector<int>(pieces, -1), file, false), goes_on_(goes_on) {}
  void produce(Piece& piece, std::span<std::byte> memory) {
    while (piece.number == 0 && !goes_on_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    RecordingJob::produce(piece, memory);
  }
  const std::atomic<bool>& goes_on_;
};

TEST(PipelineWritesTest, AQueueThatBreaksTakesNoPlaceOfOtherTransfers) {
  constexpr std::size_t kCount = 20;
  for (const bool is_asynchronous : {false, true}) {
    for (const std::uint64_t bad_piece : {std::uint64_t{1}, kCount + 1}) {  // where it is read, and where it is written
      std::atomic<bool> is_broken = false;
      BreakingFile file(is_asynchronous, bad_piece * kPieceBytes, is_broken);
      LateFirstPieceJob job(kCount, &file, is_broken);
      job.streams_max_ = 1;
      EXPECT_THROW(Pipeline(job, {.threads = 2, .piece_bytes = kPieceBytes, .queue_depth = 1}, kWorkBytes, &file).run(),
                   Error);
      EXPECT_TRUE(is_broken);
      // A broken queue is an error at the start: which transfers it lost is unknown.
      if (!is_asynchronous) {
        EXPECT_EQ(job.stages()[0], 5) << "the piece before is finished";
      }
    }
  }
}

// Of its transfers those of the first piece are through at once, and others when somebody waits for them.
class FirstPieceFirstFile final : public File {
 public:
  explicit FirstPieceFirstFile(const std::function<void()>& waits) : waits_(waits) {}
  std::string_view io_path() const override { return "first piece first"; }
  std::uint64_t size() const override { return 2 * kWorkBytes; }
  bool is_asynchronous() const override { return true; }
  std::unique_ptr<TransferQueue> make_queue(unsigned depth) override {
    class Queue final : public TransferQueue {
     public:
      Queue(const std::function<void()>& waits, unsigned depth) : waits_(waits), depth_(depth) {}
      unsigned depth() const override { return depth_; }
      unsigned in_flight() const override { return static_cast<unsigned>(started_.size()); }
      void start(Transfer& transfer) override { started_.push_back(&transfer); }
      Transfer& wait() override {
        waits_();
        return take(started_.begin());
      }
      Transfer* poll() override {
        const auto found = std::ranges::find_if(started_, [](Transfer* t) { return t->offset < kPieceBytes; });
        return found == started_.end() ? nullptr : &take(found);
      }

     private:
      Transfer& take(std::vector<Transfer*>::iterator at) {
        Transfer& taken = **at;
        started_.erase(at);
        return taken;
      }

      const std::function<void()>& waits_;
      const unsigned depth_;
      std::vector<Transfer*> started_;
    };
    return std::make_unique<Queue>(waits_, depth);
  }

 protected:
  std::size_t read_some(std::uint64_t, MutableBuffer) override { throw std::logic_error("not through a queue"); }
  std::size_t write_some(std::uint64_t, ConstBuffer) override { throw std::logic_error("not through a queue"); }
  void sync_all() override {}

 private:
  const std::function<void()> waits_;
};

TEST(PipelineQueuesTest, AThreadComputesWhileItsQueueHasNoRoomForThePiece) {
  constexpr unsigned kDepth = 3;  // one and a half pieces
  RecordingJob* running = nullptr;
  std::optional<int> stages_at_first_wait;
  FirstPieceFirstFile file([&] {
    if (!stages_at_first_wait) stages_at_first_wait = running->stages()[0];
  });
  RecordingJob job(std::vector<int>(20, -1), &file, false);
  running = &job;
  job.streams_max_ = 1;
  Pipeline(job, {.threads = 1, .piece_bytes = kPieceBytes, .queue_depth = kDepth}, kWorkBytes, &file).run();
  EXPECT_GE(stages_at_first_wait, 2) << "the first piece is read and produced before the thread waits";
  for (const auto& stage : job.stages()) EXPECT_EQ(stage, 5);
}

// Each piece belongs to one of three chains. Sees what happens during its chain stage.
struct ObservingJob : RecordingJob {
  ObservingJob(std::size_t pieces, LazyFile& file) : RecordingJob(chain_each(pieces), &file, false), file_(file) {}
  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving& keep_moving) {
    const std::size_t begun = next_number();
    if (breaks_.exchange(false)) file_.break_at_next_wait();
    // The file completes nothing at each second look.
    keep_moving();
    keep_moving();
    begun_meanwhile_ += next_number() - begun;
    ++chains_;
    RecordingJob::chain(steps, {});
  }
  static std::vector<int> chain_each(std::size_t pieces) {
    std::vector<int> chain_of(pieces);
    for (std::size_t i = 0; i < pieces; ++i) chain_of[i] = static_cast<int>(i % 3);
    return chain_of;
  }

  LazyFile& file_;
  std::atomic<bool> breaks_ = false;  // once
  std::atomic<std::size_t> begun_meanwhile_ = 0;
  std::atomic<int> chains_ = 0;  // in which both looks returned
};

TEST(PipelineQueuesTest, TransfersProceedDuringTheChainStage) {
  MemoryFile memory(std::vector<std::byte>(2 * kWorkBytes));
  LazyFile file(memory);
  ObservingJob job(50, file);
  job.streams_max_ = 1;
  Pipeline(job, {.threads = 1, .piece_bytes = kPieceBytes, .queue_depth = 2}, kWorkBytes, &file).run();
  EXPECT_GT(job.begun_meanwhile_, 0U);
  EXPECT_FALSE(job.out_of_order());
  for (const auto& stage : job.stages()) EXPECT_EQ(stage, 5);
}

TEST(PipelineQueuesTest, NoPieceWithoutReadsBeginsDuringTheChainStage) {
  MemoryFile memory(std::vector<std::byte>(2 * kWorkBytes));
  LazyFile file(memory);
  ObservingJob job(50, file);
  Pipeline(job, {.threads = 1, .piece_bytes = kPieceBytes, .reads = false}, kWorkBytes, &file).run();
  EXPECT_EQ(job.begun_meanwhile_, 0U);
  for (const auto& stage : job.stages()) EXPECT_EQ(stage, 5);
}

// All pieces but the first are critical.
struct CriticalRestJob : RecordingJob {
  using RecordingJob::RecordingJob;
  bool next(Piece& piece, const Position* before) {
    const bool found = RecordingJob::next(piece, before);
    piece.is_critical = found && piece.number > 0;
    return found;
  }
};

// Returns the stages of the first piece when the thread first waits for a transfer of another.
template <typename Job>
int stages_before_the_first_wait(std::uint64_t work_bytes) {
  RecordingJob* running = nullptr;
  std::optional<int> stages;
  FirstPieceFirstFile file([&] {
    if (!stages) stages = running->stages()[0];
  });
  Job job(ObservingJob::chain_each(20), &file, false);
  running = &job;
  job.streams_max_ = 5;
  Pipeline(job, {.threads = 1, .piece_bytes = kPieceBytes, .queue_depth = 3}, work_bytes, &file).run();
  for (const auto& stage : job.stages()) EXPECT_EQ(stage, 5);
  return stages.value_or(-1);
}

TEST(PipelineQueuesTest, AThreadWithReadsInFlightWaitsForMoreStreams) {
  EXPECT_EQ(stages_before_the_first_wait<RecordingJob>(kWorkBytes), 2) << "read and produced, not hashed by itself";
}

TEST(PipelineQueuesTest, NoThreadWaitsForStreamsThatCannotCome) {
  EXPECT_GE(stages_before_the_first_wait<RecordingJob>(2 * kPieceBytes), 3) << "there are too few slots";
  EXPECT_GE(stages_before_the_first_wait<CriticalRestJob>(kWorkBytes), 3) << "the others are hashed alone";
}

TEST(PipelineErrorsTest, AQueueThatBreaksDuringTheChainStageEndsTheRun) {
  for (const unsigned threads : {1U, 2U}) {
    MemoryFile memory(std::vector<std::byte>(2 * kWorkBytes));
    LazyFile file(memory);
    ObservingJob job(50, file);
    job.breaks_ = true;
    try {
      Pipeline(job, {.threads = threads, .piece_bytes = kPieceBytes}, kWorkBytes, &file).run();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResource);
    }
    if (threads == 1) {
      EXPECT_EQ(job.chains_, 1) << "the stage ends as if its queue had not broken, and no other begins";
    }
    EXPECT_FALSE(job.out_of_order());
  }
}

TEST(PipelineErrorsTest, TheFirstOfTwoTransfersThatFailIsTheError) {
  // The second transfer fails at once, the first one when it has.
  class BothFail final : public File {
   public:
    std::string_view io_path() const override { return "both fail"; }
    std::uint64_t size() const override { return 2 * kWorkBytes; }
    unsigned queue_depth_default() const override { return 2; }

   protected:
    std::size_t read_some(std::uint64_t offset, MutableBuffer) override {
      const bool is_first = offset == 0;
      for (int waits = 0; is_first && !has_failed_ && waits < 10'000; ++waits) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      // The other worker has to come back from its call.
      if (is_first) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      has_failed_ = true;
      throw Error(ErrorCode::kReadFailed, "fails", offset);
    }
    std::size_t write_some(std::uint64_t, ConstBuffer in) override { return in.size; }
    void sync_all() override {}

   private:
    std::atomic<bool> has_failed_ = false;
  };
  for (const bool is_lazy : {false, true}) {
    BothFail blocking;
    LazyFile lazy(blocking);
    File* const file = is_lazy ? static_cast<File*>(&lazy) : &blocking;
    RecordingJob job({-1}, file, false);
    try {
      Pipeline(job, {.threads = 1, .piece_bytes = kPieceBytes}, kWorkBytes, file).run();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.offset(), 0U);
    }
  }
}

}  // namespace
}  // namespace tzmark
