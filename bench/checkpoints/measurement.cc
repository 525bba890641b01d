// Phases of the measurement; see measurement.h.
#include "checkpoints/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include "checkpoints/checkpoint_state.h"
#include "checkpoints/steps.h"
#include "harness/interruption.h"
#include "harness/peak_memory.h"
#include "harness/shortages.h"
#include "harness/threads.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/safetensors.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t nanoseconds_since(Clock::time_point begin) {
  return static_cast<std::uint64_t>((Clock::now() - begin) / std::chrono::nanoseconds(1));
}

// The mean, because a median would hide the few steps that are delayed for long.
double mean(const std::vector<std::uint64_t>& times_ns) {
  if (times_ns.empty()) return 0;
  return std::accumulate(times_ns.begin(), times_ns.end(), 0.0) / static_cast<double>(times_ns.size());
}

class Measuring {
 public:
  explicit Measuring(const MeasurementOptions& options)
      : options_(options),
        place_(options.directory),
        state_(options.workload, options.state_bytes),
        threads_(options.threads != 0 ? options.threads : core_count()),
        one_(options.step_ms, 1),
        all_(options.step_ms, core_count()),
        checkpointer_(checkpoint_options()) {}

  Measurement run() {
    verify();
    make_memory();
    Measurement measurement{.state_bytes = state_.data_bytes(),
                            .tensors = state_.model().table().size() + state_.optimizer().table().size(),
                            .io_path = io_path_,
                            .threads = threads_,
                            .rounds = {}};
    std::mt19937_64 random(options_.seed);
    const Interruption interruption;
    for (unsigned i = 0; i < options_.rounds && measurement.signal == 0; ++i) {
      std::array<std::size_t, std::size(kPhases)> order{};
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, random);
      CheckpointRound round;
      for (const std::size_t part : order) {
        measurement.signal = Interruption::number();
        if (measurement.signal != 0) break;
        if (options_.progress)
          options_.progress(fmt::format("round {} of {}: {}", i + 1, options_.rounds, kPhases[part].what));
        const ShortageWatch watch;
        (this->*kPhases[part].measure)(round);
        if (const std::uint64_t in_place = watch.finish(); in_place != 0) {
          throw Error(ErrorCode::kResource, in_place_note(in_place));
        }
        place_.clear();
      }
      if (measurement.signal == 0) measurement.rounds.push_back(round);
    }
    return measurement;
  }

 private:
  struct Phase {
    const char* what;
    void (Measuring::*measure)(CheckpointRound&);
  };

  CheckpointOptions checkpoint_options() const {
    CheckpointOptions options;
    options.io_path = options_.io_path;
    options.threads = options_.threads;
    return options;
  }

  SaveTimes save(AsyncCheckpointer& checkpointer, const std::string& directory) {
    return checkpointer.save(directory, state_.model_views(), state_.optimizer_views(), TrainingState());
  }

  static void compare(const std::vector<CheckpointTensor>& loaded, TensorViews saved) {
    bool same = loaded.size() == saved.size();
    for (const CheckpointTensor& tensor : saved) {
      const auto found = std::ranges::find(loaded, tensor.name, &CheckpointTensor::name);
      same = same && found != loaded.end() && found->dtype == tensor.dtype && found->shape == tensor.shape &&
             std::ranges::equal(found->data.bytes(), tensor.data.bytes());
    }
    if (!same) throw Error(ErrorCode::kFileChanged, "the loaded state differs from the saved state");
  }

  // Also finds the I/O path of the plain writer.
  void verify() {
    const std::string directory = place_.new_name("");
    save(checkpointer_, directory);
    checkpointer_.wait();
    const LoadedCheckpoint loaded = load_checkpoint(directory);
    compare(loaded.model, state_.model_views());
    compare(loaded.optimizer, state_.optimizer_views());
    io_path_ = write_plainly(state_.model(), place_.new_name(".safetensors"));
    place_.clear();
  }

  // Allocates and touches the copy target, which the first round would otherwise pay for.
  void make_memory() {
    target_ = HostMemory(state_.data_bytes());
    std::ranges::fill(target_.bytes(), std::byte{1});
  }

  // Stall and background write of a save without other load.
  void measure_save(CheckpointRound& round) {
    round.times = save(checkpointer_, place_.new_name(""));
    round.report = checkpointer_.wait();
  }

  // Each thread copies its part of model and optimizer, on as many threads as copy a snapshot.
  void measure_memcpy(CheckpointRound& round) {
    const auto begin = Clock::now();
    {
      const auto others = start_all(
          threads_ - 1, [this](std::size_t i) { copy_part(static_cast<unsigned>(i)); }, [](std::size_t) {});
      copy_part(threads_ - 1);
    }
    round.memcpy_ns = nanoseconds_since(begin);
  }

  void copy_part(unsigned part) const {
    std::byte* to = target_.bytes().data();
    for (const std::span<const std::byte> from : {state_.model().bytes(), state_.optimizer().bytes()}) {
      const std::size_t begin = from.size() * part / threads_;
      const std::size_t end = from.size() * (part + 1) / threads_;
      std::memcpy(to + begin, from.data() + begin, end - begin);
      to += from.size();
    }
  }

  void measure_plain_writer(CheckpointRound& round) {
    const std::string model = place_.new_name(".safetensors"), optimizer = place_.new_name(".safetensors");
    const auto begin = Clock::now();
    write_plainly(state_.model(), model);
    write_plainly(state_.optimizer(), optimizer);
    round.plain_write_ns = nanoseconds_since(begin);
  }

  std::string write_plainly(const TensorContent& content, const std::string& name) const {
    SafetensorsWriteOptions options;
    options.threads = options_.threads;
    const auto file = open_file(name, OpenMode::kCreate, options_.io_path);
    file->expect_sync();  // as a checkpoint does
    write_safetensors(*file, content.table(), content.source(), options);
    file->sync();
    return std::string(file->io_path());
  }

  // A new checkpointer, so that its buffers count.
  void measure_memory(CheckpointRound& round) {
    PeakMemory watch;
    AsyncCheckpointer checkpointer(checkpoint_options());
    for (int i = 0; i < 2; ++i) save(checkpointer, place_.new_name(""));
    checkpointer.wait();
    round.anonymous_bytes = watch.stop().anonymous_bytes;
  }

  void measure_one_thread(CheckpointRound& round) { round.one_thread = interference(one_); }
  void measure_all_cores(CheckpointRound& round) { round.all_cores = interference(all_); }

  // Both measurements take the same time.
  Interference interference(const Steps& steps) {
    save(checkpointer_, place_.new_name(""));
    const auto begin = Clock::now();
    const double draining_ns = mean(steps.during([&] { checkpointer_.wait(); }));
    const auto elapsed = Clock::now() - begin;
    const double idle_ns = mean(steps.during([&] { std::this_thread::sleep_for(elapsed); }));
    return {.idle_ns = idle_ns, .draining_ns = draining_ns};
  }

  static const Phase kPhases[6];

  const MeasurementOptions& options_;
  Workplace place_;
  const CheckpointState state_;
  const unsigned threads_;
  const Steps one_, all_;
  AsyncCheckpointer checkpointer_;
  HostMemory target_;
  std::string io_path_;
};

const Measuring::Phase Measuring::kPhases[6] = {
    {"save", &Measuring::measure_save},
    {"memcpy", &Measuring::measure_memcpy},
    {"plain writer", &Measuring::measure_plain_writer},
    {"memory", &Measuring::measure_memory},
    {"steps on one thread during a save", &Measuring::measure_one_thread},
    {"steps on all cores during a save", &Measuring::measure_all_cores},
};

}  // namespace

Measurement measure_checkpoints(const MeasurementOptions& options) { return Measuring(options).run(); }

}  // namespace tzmark::bench
