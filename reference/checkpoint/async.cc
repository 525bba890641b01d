// Saves one after another: wait for the previous one, copy, and write in the background.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "bytes/threads.h"
#include "checkpoint/claim.h"
#include "checkpoint/line.h"
#include "checkpoint/retention.h"
#include "checkpoint/save_task.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/stopwatch.h"
#include "codec/pipeline.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using checkpoint::TensorSet;

// The most memory that a writer uses for pieces in flight, and the deepest default queue of an I/O path.
constexpr std::uint64_t kWriteBufferBytesMax = std::uint64_t{192} << 20;
constexpr std::uint64_t kQueueDepthMax = 16;
constexpr std::uint64_t kPageBytes = 4096;

bool any_on_device(TensorViews tensors) {
  return std::ranges::any_of(tensors, [](const CheckpointTensor& t) { return t.data.kind == MemoryKind::kDevice; });
}

// Whose background work this thread does.
thread_local const AsyncCheckpointer* working_for = nullptr;

// Runs work in the background, or here if the system starts no thread. The future holds what it throws.
template <typename Work>
std::future<WriteReport> start(const AsyncCheckpointer& owner, Work work) {
  // A thread that fails to start destroys its copy of the work.
  const auto shared = std::make_shared<Work>(std::move(work));
  const auto run = [&owner, shared] {
    struct Working {
      const AsyncCheckpointer* const before;
      ~Working() { working_for = before; }
    } const working{std::exchange(working_for, &owner)};
    return (*shared)();
  };
  try {
    return std::async(std::launch::async, run);
  } catch (const std::system_error&) {
    count_missing_threads(1);
    std::packaged_task<WriteReport()> here(run);
    here();
    return here.get_future();
  }
}

}  // namespace

void CheckpointOptions::check() const {
  PipelineOptions{.threads = threads, .piece_bytes = piece_bytes}.check();
  if (threads > kThreadsMax) {
    throw Error(ErrorCode::kUsage, fmt::format("at most {} threads", kThreadsMax));
  }
  if (retention.keep_latest == 0 && retention.keep_every != 0) {
    throw Error(ErrorCode::kUsage, "keep_every needs keep_latest, as without it all checkpoints are kept");
  }
  if (retention.keep_latest == 0 && (!retention.protect.empty() || retention.keep)) {
    throw Error(ErrorCode::kUsage, "protect and keep need keep_latest, as without it all checkpoints are kept");
  }
  for (const std::string& name : retention.protect) {
    if (name.empty() || name.find('/') != std::string::npos) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("'{}' is no name of a checkpoint to protect: names have no parent", name));
    }
  }
  if (layout && format != CheckpointOptions::Format::kTensors) {
    throw Error(ErrorCode::kUsage, "a layout needs the .tensors format");
  }
}

AsyncCheckpointer::AsyncCheckpointer(CheckpointOptions options)
    : options_(std::move(options)),
      pool_(std::make_unique<SnapshotPool>()),
      line_(std::make_unique<checkpoint::Line>()) {
  options_.check();
  claims_ = std::make_unique<checkpoint::Claims>(options_.exclusive);
  retention_ = std::make_unique<checkpoint::RetentionPolicy>(options_.retention, options_.threads);
}

AsyncCheckpointer::~AsyncCheckpointer() {
  if (writing_.valid()) writing_.wait();
}

void AsyncCheckpointer::wait_for_writing() const {
  if (working_for == this) {
    throw Error(ErrorCode::kUsage, "keep and agree must not call the checkpointer, whose save waits for them");
  }
  if (writing_.valid()) writing_.wait();
}

void AsyncCheckpointer::continue_from(const std::string& save_id) {
  wait_for_writing();
  line_->continue_from(save_id);
}

std::string AsyncCheckpointer::claim(const std::string& parent) {
  wait_for_writing();
  return claims_->hold(parent);
}

void AsyncCheckpointer::release() {
  wait_for_writing();
  claims_->release();
}

void AsyncCheckpointer::reserve(std::uint64_t bytes) {
  wait_for_writing();
  if (bytes > pool_->held_bytes()) checkpoint::touch(pool_->take(bytes, false), options_.threads);
}

std::uint64_t AsyncCheckpointer::snapshot_memory_bytes() const { return pool_->held_bytes(); }

void AsyncCheckpointer::finish_previous() {
  wait_for_writing();
  if (!writing_.valid()) return;
  report_ = {};
  try {
    report_ = writing_.get();
  } catch (...) {
    error_ = std::current_exception();
  }
}

WriteReport AsyncCheckpointer::wait() {
  finish_previous();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return report_;
}

SaveTimes AsyncCheckpointer::save(const std::string& directory, TensorViews model, TensorViews optimizer,
                                  const TrainingState& state) {
  return run({.directory = directory, .model_views = model, .optimizer_views = optimizer, .state = state});
}

SaveTimes AsyncCheckpointer::save_distributed(const std::string& directory, std::uint32_t rank,
                                              std::uint32_t world_size, TensorViews model, TensorViews optimizer,
                                              const TrainingState& state, const Sharding& sharding,
                                              const SaveGroup& group) {
  return run({.directory = directory,
              .model_views = model,
              .optimizer_views = optimizer,
              .state = state,
              .sharding = sharding,
              .rank = rank,
              .world_size = world_size,
              .group = group});
}

void AsyncCheckpointer::decline(const SaveGroup& group) {
  finish_previous();
  writing_ = start(*this, [agree = group.agree] {
    static_cast<void>(agree(false));
    static_cast<void>(agree(false));
    return WriteReport{};
  });
}

void AsyncCheckpointer::take_snapshot(SaveTask& task) {
  task.check();
  task.model = checkpoint::describe(task.model_views);
  task.optimizer = checkpoint::describe(task.optimizer_views);
  const std::uint64_t bytes = checkpoint::snapshot_bytes(task.model) + checkpoint::snapshot_bytes(task.optimizer);
  if (options_.memory_limit_bytes != 0 && bytes + write_buffer_bytes(bytes) > options_.memory_limit_bytes) {
    throw Error(ErrorCode::kResource,
                fmt::format("a snapshot of {} bytes and {} bytes of write buffers exceed the limit of {} bytes", bytes,
                            write_buffer_bytes(bytes), options_.memory_limit_bytes));
  }
  const bool pinned = any_on_device(task.model_views) || any_on_device(task.optimizer_views);
  TensorSet* const sets[] = {&task.model, &task.optimizer};
  checkpoint::copy_to_snapshot(sets, pool_->take(bytes, pinned), options_.threads);
}

SaveTimes AsyncCheckpointer::run(SaveTask task) {
  checkpoint::Stopwatch watch;
  // First, because it refuses a call from the callbacks of a write, while another thread may be here.
  finish_previous();
  times_ = {};
  times_.wait_ns = watch.lap_ns();
  try {
    take_snapshot(task);
  } catch (...) {
    // Otherwise the other ranks would wait for this one forever.
    if (task.sharding && task.group.agree) decline(task.group);
    throw;
  }
  times_.copy_ns = watch.lap_ns();
  const bool is_sharded = task.sharding.has_value();
  const auto group = task.group;
  try {
    writing_ = start(*this, [this, task = std::move(task)]() mutable {
      return task.write(options_, {*claims_, *line_, *retention_});
    });
  } catch (...) {
    if (is_sharded && group.agree) decline(group);
    throw;
  }
  times_.submit_ns = watch.lap_ns();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return times_;
}

// Returns the memory for pieces in flight that the codec's pipeline, used for both formats, allocates at most.
std::uint64_t AsyncCheckpointer::write_buffer_bytes(std::uint64_t bytes) const {
  const std::uint64_t piece_bytes = options_.piece_bytes + 2 * kPageBytes;
  const std::uint64_t threads = options_.threads != 0 ? options_.threads : core_count();
  const std::uint64_t pieces = std::max(threads, kQueueDepthMax) + 2 * threads + 1;
  const std::uint64_t affordable = std::max(kWriteBufferBytesMax / piece_bytes, threads + 2);
  return std::min({pieces, affordable, bytes / options_.piece_bytes + 2}) * piece_bytes;
}

}  // namespace tzmark
