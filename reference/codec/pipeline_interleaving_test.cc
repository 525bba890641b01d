// The pipeline in each order of its threads' critical sections, for few pieces and threads, and with each call failing:
// no signal is lost, each piece passes each stage once and in order, and the error at the lowest position wins.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "codec/pipeline_threads.h"
#include "testing/threads/interleavings.h"

namespace tzmark::test {

struct PipelineView {
  static bool is_empty(const PipelineThreads& threads) {
    const PipelineState& state = threads.state_;
    return state.used == 0 && state.used_streams == 0 && state.led == 0 && state.computing == 0 && state.reading == 0 &&
           state.writing == 0;
  }

  // What the further course of a pipeline depends on.
  static std::string describe(const PipelineThreads& threads, const std::map<const void*, unsigned>& queues) {
    const PipelineState& state = threads.state_;
    std::string text;
    const auto add = [&](auto value) { text += std::to_string(value) + ","; };
    for (const Slot& s : state.slots) {
      add(static_cast<int>(s.state));
      if (s.state == SlotState::kFree) continue;
      const auto queue = queues.find(s.queue);
      add(queue == queues.end() ? (s.queue == nullptr ? -1 : -2) : static_cast<int>(queue->second));
      for (const std::uint64_t value :
           {std::uint64_t{s.position.tensor}, s.in_chain, std::uint64_t{s.streams}, std::uint64_t{s.transfer_count},
            std::uint64_t{s.next_transfer}, std::uint64_t{s.pending}, std::uint64_t{s.failed},
            std::uint64_t{s.chaining}, std::uint64_t{s.chained}, std::uint64_t{s.is_led},
            std::uint64_t{threads.carried_[static_cast<std::size_t>(&s - state.slots.data())].leads_to}}) {
        add(value);
      }
      if (s.chain != nullptr) add(s.chain->next);
    }
    for (const std::uint64_t value :
         {std::uint64_t{state.computing}, std::uint64_t{state.reading}, std::uint64_t{state.writing},
          std::uint64_t{state.exhausted}, std::uint64_t{state.error != nullptr}, std::uint64_t{threads.waiting_},
          std::uint64_t{threads.is_one_looking_}}) {
      add(value);
    }
    if (state.error) {
      add(state.error_position.tensor);
      add(state.error_transfer);
    }
    return text;
  }
};

}  // namespace tzmark::test

namespace tzmark {
namespace {

using test::note_step;

constexpr std::size_t kPieceBytes = 4096;
constexpr int kStages = 5;  // reads, produce, chain, consume, writes
constexpr std::size_t kNoCall = ~std::size_t{0};

enum class Path { kNone, kBlocking, kAsynchronous };

// The failing calls of a file are counted in the order of their offsets, so that they do not depend on that of threads.
class OrderedFile final : public File {
 public:
  OrderedFile(bool is_asynchronous, std::size_t failing) : is_asynchronous_(is_asynchronous), failing_(failing) {}

  std::string_view io_path() const override { return "ordered"; }
  std::uint64_t size() const override { return std::uint64_t{1} << 20; }
  bool is_asynchronous() const override { return is_asynchronous_; }
  unsigned queue_depth_default() const override { return is_asynchronous_ ? 4 : 0; }
  std::unique_ptr<TransferQueue> make_queue(unsigned depth) override {
    auto queue = is_asynchronous_ ? std::make_unique<Queue>(*this, depth) : File::make_queue(depth);
    queues_[queue.get()] = test::thread_number();
    return queue;
  }
  const std::map<const void*, unsigned>& queues() const { return queues_; }
  std::string describe() const {
    std::string text;
    for (const auto& [number, started] : started_) {
      text += "q" + std::to_string(number) + (started.is_ready ? "r" : "");
      for (const Transfer* transfer : started.transfers) text += " " + std::to_string(transfer->offset);
    }
    return text;
  }

 private:
  struct Started {
    std::vector<Transfer*> transfers;
    bool is_ready = false;
  };
  // Every other look finds the transfer that was started last.
  class Queue final : public TransferQueue {
   public:
    Queue(OrderedFile& file, unsigned depth)
        : file_(file), depth_(depth), started_(file.started_[test::thread_number()]) {}
    unsigned depth() const override { return depth_; }
    unsigned in_flight() const override { return static_cast<unsigned>(started_.transfers.size()); }
    void start(Transfer& transfer) override {
      note_step("start " + std::to_string(transfer.offset));
      started_.transfers.push_back(&transfer);
    }
    Transfer& wait() override {
      Transfer& last = *started_.transfers.back();
      started_.transfers.pop_back();
      note_step("complete " + std::to_string(last.offset));
      last.error = file_.fails(last.offset) ? std::make_exception_ptr(Error(ErrorCode::kResource, "planted")) : nullptr;
      return last;
    }
    Transfer* poll() override {
      started_.is_ready = !started_.is_ready;
      if (started_.is_ready && !started_.transfers.empty()) return &wait();
      note_step("look");
      return nullptr;
    }

   private:
    OrderedFile& file_;
    const unsigned depth_;
    Started& started_;
  };

  bool fails(std::uint64_t offset) const { return offset / (kPieceBytes / 2) == failing_; }
  std::size_t move(std::uint64_t offset, std::size_t bytes) const {
    note_step("move " + std::to_string(offset));
    if (fails(offset)) throw Error(ErrorCode::kResource, "planted");
    return bytes;
  }
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override { return move(offset, out.size); }
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override { return move(offset, in.size); }
  void sync_all() override {}

  const bool is_asynchronous_;
  const std::size_t failing_;
  std::map<const void*, unsigned> queues_;
  std::map<unsigned, Started> started_;
};

struct Setting {
  unsigned threads = 2;
  std::vector<int> chain_of;  // of each piece its chain, or -1
  Path path = Path::kNone;
  bool is_late = false;
  std::vector<std::pair<std::size_t, int>> failures = {};  // piece and stage
  std::size_t failing_call = kNoCall;                      // of the file: two per piece to read, then two to write
  bool takes_buffers = false;                              // of which there are two more than threads
  bool leads_on = false;                                   // each piece but every third to the next one
  bool skips_chain = false;                                // pieces without a chain have no stream
  unsigned queue_depth = 0;                                // with more transfers than threads, others start them too
};

// One thread runs at a time, so nothing here is atomic.
class Job final : public PieceWork {
 public:
  explicit Job(const Setting& setting)
      : setting_(setting),
        file_(setting.path == Path::kAsynchronous, setting.failing_call),
        pieces_(setting.chain_of.size() + 1),
        number_of_(pieces_.size()),
        done_(setting.chain_of.size()),
        readers_(setting.chain_of.size()),
        memory_(kPieceBytes) {}

  File* file() { return setting_.path == Path::kNone ? nullptr : &file_; }

  const PipelinePiece* next(std::size_t slot, const Position* before) override {
    if (next_ == setting_.chain_of.size()) return nullptr;
    PipelinePiece& piece = pieces_.at(slot);
    piece = {};
    piece.position = {next_, 0};
    if (before != nullptr && *before < piece.position) return nullptr;
    piece.has_own_memory = !setting_.takes_buffers;
    piece.chains_late = setting_.is_late;
    piece.leads_on = setting_.leads_on && next_ % 3 != 2;
    if (const int chain = setting_.chain_of[next_]; chain >= 0) {
      piece.chain = &chains_.at(static_cast<std::size_t>(chain));
      piece.in_chain = counts_.at(static_cast<std::size_t>(chain))++;
    } else if (setting_.skips_chain) {
      piece.streams = 0;
    }
    number_of_[slot] = next_++;
    return &piece;
  }
  std::size_t streams_wanted() const override { return 1; }
  void release(std::size_t) override {}
  std::size_t reads(std::size_t slot, std::span<std::byte>, FileTransfers& transfers) override {
    step(slot, 0);
    const std::size_t number = number_of_[slot];
    readers_[number] = test::thread_number();
    // Where buffers may be missing, another thread may come to the piece.
    const bool is_led = setting_.leads_on && !setting_.takes_buffers && number % 3 != 0;
    if (is_led && readers_[number] != readers_[number - 1]) is_led_to_another_ = true;
    return plan(transfers, number);
  }
  void produce(std::size_t slot, std::span<std::byte>) override { step(slot, 1); }
  void chain(std::span<Step> steps, const KeepMoving& keep_moving) override {
    if (keep_moving) keep_moving();
    std::string taken;
    for (Step& one : steps) {
      const PipelinePiece& piece = pieces_[one.slot];
      if (piece.chain != nullptr && piece.chain->next != piece.in_chain) is_out_of_order_ = true;
      try {
        step(one.slot, 2);
      } catch (...) {
        one.error = std::current_exception();
      }
      taken += " " + std::to_string(one.slot) + (one.error ? "!" : "");
    }
    note_step("chain" + taken);
  }
  void consume(std::size_t slot, std::span<std::byte>) override {
    if (pieces_[slot].streams == 0) step(slot, 2);
    step(slot, 3);
  }
  bool is_lent(std::size_t) const override { return false; }
  void take_back(std::size_t) override {}
  std::size_t writes(std::size_t slot, std::span<std::byte>, FileTransfers& transfers) override {
    step(slot, 4);
    return plan(transfers, setting_.chain_of.size() + number_of_[slot]);
  }

  std::string describe(const PipelineThreads& threads) const {
    std::string text = test::PipelineView::describe(threads, file_.queues()) + file_.describe();
    for (const unsigned stages : done_) text += "," + std::to_string(stages);
    for (const std::size_t number : number_of_) text += "," + std::to_string(number);
    return text + ";" + std::to_string(next_);
  }

  // What has to hold after a run that ended with this error, or without.
  void check(const std::optional<std::string>& error) const {
    ASSERT_FALSE(is_out_of_order_);
    ASSERT_FALSE(is_led_to_another_);
    std::size_t lowest = setting_.chain_of.size();
    for (const auto& [piece, stage] : setting_.failures) lowest = std::min(lowest, piece);
    const bool call_fails = setting_.failing_call != kNoCall;
    const bool fails = call_fails || !setting_.failures.empty();
    ASSERT_EQ(error.has_value(), fails);
    if (call_fails) lowest = setting_.failing_call / 2 % setting_.chain_of.size();
    if (fails && !call_fails) {
      ASSERT_EQ(*error, std::to_string(lowest));
    }
    constexpr unsigned kAll = (1U << kStages) - 1;
    for (std::size_t i = 0; i < lowest; ++i) ASSERT_EQ(done_[i], kAll) << "pieces before the error are finished";
  }

 private:
  std::size_t plan(FileTransfers& transfers, std::size_t place) {
    if (setting_.path == Path::kNone) return 0;
    constexpr std::size_t kHalf = kPieceBytes / 2;
    for (std::size_t i = 0; i < 2; ++i) {
      transfers[i].file = &file_;
      transfers[i].transfer.offset = place * kPieceBytes + i * kHalf;
      transfers[i].transfer.memory = std::span(memory_).subspan(i * kHalf, kHalf);
    }
    return 2;
  }

  void step(std::size_t slot, int stage) {
    const std::size_t piece = number_of_[slot];
    const bool fails = std::ranges::count(setting_.failures, std::pair(piece, stage)) > 0;
    note_step(std::to_string(slot) + "/" + std::to_string(piece) + "/" + std::to_string(stage) + (fails ? "!" : ""));
    // Of stages 0 to 4 those that must precede.
    const bool late = setting_.is_late;
    const std::array<unsigned, kStages> needs = {0b00000, 0b00001, late ? 0b01011U : 0b00011U,
                                                 late ? 0b00011U : 0b00111U, 0b01011};
    const unsigned needed = needs.at(static_cast<std::size_t>(stage));
    if ((done_[piece] & needed) != needed || (done_[piece] >> stage & 1) != 0) is_out_of_order_ = true;
    if (fails) throw std::runtime_error(std::to_string(piece));
    done_[piece] |= 1U << stage;
  }

  const Setting setting_;
  OrderedFile file_;
  std::vector<PipelinePiece> pieces_;   // per slot
  std::vector<std::size_t> number_of_;  // per slot
  std::vector<unsigned> done_;          // per piece a bit for each stage
  std::vector<unsigned> readers_;       // per piece the thread that has begun it
  std::vector<std::byte> memory_;
  std::array<Chain, 2> chains_;
  std::array<std::uint64_t, 2> counts_{};
  std::size_t next_ = 0;
  bool is_out_of_order_ = false, is_led_to_another_ = false;
};

// Runs the setting in each order, or in those with so many interruptions.
test::InterleavingCounts explore(const Setting& setting, test::InterleavingOptions options) {
  const PipelineThreads* running = nullptr;
  const Job* job_of_run = nullptr;
  if (options.interruptions_max == std::numeric_limits<unsigned>::max()) {
    options.state = [&] { return running == nullptr ? std::string() : job_of_run->describe(*running); };
  }
  const auto counts = test::explore_interleavings(options, [&] {
    Job job(setting);
    PipelineOptions of_threads{.threads = setting.threads, .piece_bytes = kPieceBytes};
    of_threads.leads_on = setting.leads_on;
    of_threads.queue_depth = setting.queue_depth;
    if (setting.takes_buffers) of_threads.memory_bytes_max = 0;
    PipelineThreads threads(of_threads, setting.chain_of.size() * kPieceBytes, job.file(), 1);
    running = &threads;
    job_of_run = &job;
    std::optional<std::string> error;
    try {
      threads.run(job);
    } catch (const std::exception& e) {
      error = e.what();
    }
    running = nullptr;
    EXPECT_TRUE(test::PipelineView::is_empty(threads));
    job.check(error);
  });
  EXPECT_TRUE(counts.is_complete);
  return counts;
}

// All settings, for minutes instead of seconds: scripts/test --full.
bool is_full() { return std::getenv("TZMARK_FULL") != nullptr; }

class PipelineInterleavingTest : public ::testing::TestWithParam<std::tuple<Path, bool>> {
 protected:
  ~PipelineInterleavingTest() override {
    std::printf("%llu settings, %llu orders, %llu states\n", static_cast<unsigned long long>(settings_),
                static_cast<unsigned long long>(runs_), static_cast<unsigned long long>(states_));
  }

  static Path path() { return std::get<0>(GetParam()); }
  static Setting setting(std::vector<int> chain_of, unsigned threads = 2) {
    return {.threads = threads, .chain_of = std::move(chain_of), .path = path(), .is_late = std::get<1>(GetParam())};
  }

  void run(const Setting& one, const test::InterleavingOptions& options = {}) {
    const test::InterleavingCounts counts = explore(one, options);
    ++settings_;
    runs_ += counts.runs;
    states_ += counts.states;
  }

  // With each call of the job and of the file failing.
  void run_failing(const Setting& plain, const test::InterleavingOptions& options = {}) {
    const std::size_t pieces = plain.chain_of.size();
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      for (int stage = 0; stage < kStages && !HasFatalFailure(); ++stage) {
        Setting failing = plain;
        failing.failures = {{piece, stage}};
        run(failing, options);
        // Of two errors, that of the piece before.
        if (piece == 0) continue;
        failing.failures.emplace_back(piece - 1, kStages - 1 - stage);
        run(failing, options);
      }
    }
    if (path() == Path::kNone) return;
    for (std::size_t call = 0; call < 4 * pieces && !HasFatalFailure(); ++call) {
      Setting failing = plain;
      failing.failing_call = call;
      run(failing, options);
    }
  }

 private:
  std::uint64_t settings_ = 0, runs_ = 0, states_ = 0;
};

TEST_P(PipelineInterleavingTest, TwoPiecesInEachOrder) {
  run(setting({0, 0}));
  run_failing(setting({0, 0}));
}

TEST_P(PipelineInterleavingTest, ThreePiecesInEachOrder) {
  if (path() == Path::kAsynchronous && !is_full()) GTEST_SKIP() << "half a minute each: scripts/test --full";
  run(setting({0, 1, 0}));
  if (is_full()) run_failing(setting({0, 1, 0}));
}

// Of more threads, all orders would be too many.
TEST_P(PipelineInterleavingTest, ThreeThreadsWithFewInterruptions) {
  if (path() == Path::kAsynchronous && !is_full()) GTEST_SKIP() << "a quarter of a minute each: scripts/test --full";
  // Two interruptions of the asynchronous path would be too many orders.
  const unsigned interruptions = is_full() && path() != Path::kAsynchronous ? 2 : 1;
  const test::InterleavingOptions options{.interruptions_max = interruptions, .early_wakes_max = 1};
  run(setting({0, -1, 0}, 3), options);
  run_failing(setting({0, -1, 0}, 3), options);
}

// Of five pieces, the last one waits for the buffer of another.
TEST_P(PipelineInterleavingTest, PiecesWaitForBuffers) {
  Setting waiting = setting({0, 1, 0, -1, 1});
  waiting.takes_buffers = true;
  const test::InterleavingOptions options{.interruptions_max = is_full() ? 2U : 1U, .early_wakes_max = 1};
  run(waiting, options);
  run_failing(waiting, options);
}

// Of four pieces, the first two lead on to those after them.
TEST_P(PipelineInterleavingTest, PiecesLeadOn) {
  Setting leading = setting({0, -1, 0, -1});
  leading.leads_on = true;
  const test::InterleavingOptions options{.interruptions_max = is_full() ? 2U : 1U, .early_wakes_max = 1};
  run(leading, options);
  run_failing(leading, options);
  leading.takes_buffers = true;
  run(leading, options);
  leading.takes_buffers = false;
  if (path() == Path::kBlocking) {
    leading.threads = 1;
    leading.queue_depth = 2;
    run(leading, options);
    run_failing(leading, options);
  }
  if (std::get<1>(GetParam())) return;
  leading.chain_of = {-1, -1, -1, -1};
  leading.skips_chain = true;
  run(leading, options);
  run_failing(leading, options);
}

// An order is given up where its state is known; that loses none only if the description of states suffices.
TEST_P(PipelineInterleavingTest, TheDescriptionOfStatesSuffices) {
  if (path() == Path::kAsynchronous) GTEST_SKIP() << "too many orders";
  const auto once = explore(setting({0}), {});
  const auto all = explore(setting({0}), {.repeats_states = true});
  EXPECT_EQ(all.states, once.states);
  EXPECT_GT(all.runs, once.runs);
}

INSTANTIATE_TEST_SUITE_P(Paths, PipelineInterleavingTest,
                         ::testing::Combine(::testing::Values(Path::kNone, Path::kBlocking, Path::kAsynchronous),
                                            ::testing::Bool()));

}  // namespace
}  // namespace tzmark
