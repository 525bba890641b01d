// See cluster/rank_writes.h.
#include "cluster/rank_writes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "checkpoints/checkpoint_state.h"
#include "tzmark/error.h"
#include "tzmark/profile.h"

namespace tzmark::bench {
namespace {

constexpr Layout kLayout = Layout::kV5Segments;

Workload part_of(const Workload& model, const TensorRange& range) {
  if (range.first == range.end) {
    throw Error(ErrorCode::kUsage,
                fmt::format("the tensors of {} are too large to be divided among so many ranks", model.label()));
  }
  Workload part{.name = model.name, .summary = model.summary, .tensors = {}, .scaled = model.scaled};
  part.tensors.assign(model.tensors.begin() + static_cast<std::ptrdiff_t>(range.first),
                      model.tensors.begin() + static_cast<std::ptrdiff_t>(range.end));
  return part;
}

CheckpointOptions checkpoint_options(const IoSettings& moving) {
  CheckpointOptions options;
  options.io_path = moving.io;
  options.threads = moving.threads;
  if (moving.block_bytes != 0) options.piece_bytes = static_cast<std::size_t>(moving.block_bytes);
  return options;
}

void require_same(const std::string& name, std::span<const std::byte> found, std::span<const std::byte> written) {
  if (std::ranges::equal(found, written)) return;
  throw Error(ErrorCode::kFileChanged, fmt::format("tensor '{}' has other bytes than were written", name));
}

}  // namespace

RankWrites::RankWrites(Ranks& ranks, const IoSettings& moving, const Workload& model)
    : ranks_(ranks),
      moving_(moving),
      table_(table_of(model)),
      own_(share_of(table_, ranks.rank(), ranks.size())),
      content_(part_of(model, own_)),
      checkpointer_(checkpoint_options(moving)) {}

void RankWrites::make_place(const std::string& directory) {
  std::string problem;
  if (ranks_.rank() == 0) {
    try {
      made_.emplace(directory, "written-");
      directory_ = made_->path();
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  directory_ = ranks_.from_first(directory_);
  if (!directory_.empty()) return;
  throw Error(ErrorCode::kOpenFailed, problem.empty() ? "rank 0 cannot make a directory" : problem);
}

std::string RankWrites::file_name() const { return directory_ + "/model.tensors"; }
std::string RankWrites::checkpoint() const { return fmt::format("{}/checkpoint-{}", directory_, writes_); }

WriteOptions RankWrites::write_options() const {
  WriteOptions options = bench::write_options({.layout = kLayout});
  options.io_path = moving_.io;
  options.threads = moving_.threads;
  options.queue_depth = moving_.queue_depth;
  if (moving_.block_bytes != 0) apply(ProfileSettings{.block_bytes = moving_.block_bytes}, options);
  return options;
}

void RankWrites::write(Pattern pattern, RankRun& run) {
  ++writes_;
  if (pattern == Pattern::kSegments) {
    std::vector<ConstBuffer> data(table_.size());
    for (std::size_t i = own_.first; i < own_.end; ++i) data[i] = content_[i - own_.first];
    write_together(file_name(), table_, own_, MemorySource(std::move(data)), ranks_, write_options());
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<CheckpointTensor> views = views_of(content_);
  TrainingState state;
  state.step = writes_;
  Sharding sharding;
  sharding.strategy = Sharding::Strategy::kZeroPartitioned;
  const std::string save_id = fmt::format("{}-{}", std::filesystem::path(directory_).filename().string(), writes_);
  try {
    checkpointer_.save_distributed(checkpoint(), ranks_.rank(), ranks_.size(), views, {}, state, sharding,
                                   {.save_id = save_id, .agree = [&](bool mine) { return ranks_.agree(mine); }});
  } catch (...) {
    // A save that cannot take part tells the others so from a thread of its own, and MPI takes one call at a time.
    try {
      checkpointer_.wait();
    } catch (const Error&) {
    }
    throw;
  }
  run.stall_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1));
  checkpointer_.wait();
}

void RankWrites::check(Pattern pattern) const {
  if (pattern == Pattern::kSegments) {
    const Reader reader = Reader::open(file_name());
    const LoadedTensors loaded = reader.load();
    for (std::size_t i = own_.first; i < own_.end; ++i) {
      const std::string& name = content_.workload().tensors[i - own_.first].name;
      const auto found = reader.find(name);
      if (!found) throw Error(ErrorCode::kFileChanged, fmt::format("tensor '{}' is missing", name));
      require_same(name, loaded[*found], content_[i - own_.first]);
    }
    return;
  }
  const LoadedCheckpoint loaded = load_distributed_checkpoint(checkpoint(), ranks_.rank(), ranks_.size());
  for (std::size_t i = 0; i < content_.table().size(); ++i) {
    const std::string& name = content_.workload().tensors[i].name;
    const auto found = std::ranges::find(loaded.model, name, &CheckpointTensor::name);
    if (found == loaded.model.end()) {
      throw Error(ErrorCode::kFileChanged, fmt::format("tensor '{}' is missing", name));
    }
    require_same(name, found->data.bytes(), content_[i]);
  }
}

void RankWrites::clear() const {
  if (made_) made_->clear();
}

}  // namespace tzmark::bench
