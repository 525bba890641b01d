// Sharded checkpoints put together, or dealt out to another number of ranks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "checkpoint/merge.h"
#include "checkpoint/save.h"
#include "tzmark/checkpoint.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using checkpoint::Content;
using checkpoint::MergedCheckpoint;
using checkpoint::MergedTensors;
using checkpoint::PendingCheckpoint;
using checkpoint::SlicedSource;

// What one rank gets of one kind of tensors.
struct Share {
  TensorTable table;
  SlicedSource source;
  std::vector<std::string> names;

  void take(const MergedTensors& all, std::size_t i) {
    const TensorInfo tensor = all.table[i];
    add(all, i, tensor.shape, {&all.source, i, tensor.data_length, tensor.data_length, 0});
  }

  // One of so many equal parts along the dimension that it was split along.
  void take_part(const MergedTensors& all, std::size_t i, std::uint32_t part, std::uint32_t parts) {
    const TensorInfo tensor = all.table[i];
    const auto at = static_cast<std::size_t>(*all.split_dims[i]);
    std::vector<std::uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
    if (shape[at] % parts != 0) {
      throw Error(ErrorCode::kUsage, fmt::format("'{}' has {} in dimension {}, which {} ranks cannot share",
                                                 all.names[i], shape[at], at, parts));
    }
    const std::uint64_t row_bytes = std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(at), shape.end(),
                                                    tensor.dtype.item_bytes, std::multiplies<>());
    shape[at] /= parts;
    add(all, i, shape, {&all.source, i, row_bytes, row_bytes / parts, row_bytes / parts * part});
  }

 private:
  void add(const MergedTensors& all, std::size_t i, std::span<const std::uint64_t> shape,
           const checkpoint::SlicedTensor::Part& part) {
    table.add({all.names[i]}, Kind::kStateDict, all.table[i].dtype, shape);
    source.add({{part}});
    names.push_back(all.names[i]);
  }
};

// For each tensor the rank that owns it: about as many bytes each, in the order of the tensors.
std::vector<std::uint32_t> owners(const MergedTensors& model, std::uint32_t world_size) {
  std::uint64_t all_bytes = 0;
  for (std::size_t i = 0; i < model.table.size(); ++i) all_bytes += model.table[i].data_length;
  std::vector<std::uint32_t> owner(model.table.size());
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < owner.size(); ++i) {
    // Where its middle lies, as a part of the whole, says whose it is.
    const double middle = static_cast<double>(before) + static_cast<double>(model.table[i].data_length) / 2;
    const double part = all_bytes == 0 ? 0 : middle / static_cast<double>(all_bytes);
    owner[i] = std::min(world_size - 1, static_cast<std::uint32_t>(part * world_size));
    before += model.table[i].data_length;
  }
  return owner;
}

class Reshard {
 public:
  Reshard(const MergedCheckpoint& merged, std::uint32_t world_size)
      : merged_(merged), world_size_(world_size), owners_(owners(merged.model(), world_size)) {}

  void deal(std::uint32_t rank, Share& model, Share& optimizer) const {
    for (std::size_t i = 0; i < merged_.model().names.size(); ++i) {
      if (!partitions_model() || owners_[i] == rank) take(merged_.model(), i, rank, model);
    }
    for (std::size_t i = 0; i < merged_.optimizer().names.size(); ++i) {
      const auto parameter = merged_.parameter_of(merged_.optimizer().names[i]);
      // What belongs to no parameter, such as a count of steps, goes to everybody.
      if (!partitions() || !parameter || owners_[*parameter] == rank) take(merged_.optimizer(), i, rank, optimizer);
    }
  }

  Sharding sharding(std::uint32_t rank) const {
    Sharding sharding = merged_.sharding();
    sharding.owned_params.clear();
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      if (!partitions() || owners_[i] == rank) sharding.owned_params.push_back(merged_.model().names[i]);
    }
    return sharding;
  }

 private:
  bool partitions() const { return merged_.sharding().strategy == Sharding::Strategy::kZeroPartitioned; }
  // The first two stages divide optimizer and gradients alone.
  bool partitions_model() const { return partitions() && merged_.sharding().zero_stage >= 3; }

  void take(const MergedTensors& all, std::size_t i, std::uint32_t rank, Share& share) const {
    if (all.split_dims[i]) {
      share.take_part(all, i, rank, world_size_);
    } else {
      share.take(all, i);
    }
  }

  const MergedCheckpoint& merged_;
  const std::uint32_t world_size_;
  const std::vector<std::uint32_t> owners_;
};

// Beside its source it would be of the same step, and so the newest there, and retention would count it as one of the
// run's own.
void require_another_parent(const std::string& directory, const std::string& out_directory) {
  namespace fs = std::filesystem;
  const auto whole = [](const fs::path& path) {
    std::error_code error;
    fs::path found = fs::weakly_canonical(path, error);
    return error ? path.lexically_normal() : found;
  };
  const fs::path parent = whole(directory).parent_path();
  if (whole(checkpoint::place_of(out_directory).parent) == parent) {
    throw Error(ErrorCode::kUsage, fmt::format("{}: it would lie beside {}, and count as a checkpoint of the same run",
                                               out_directory, directory));
  }
}

CheckpointOptions with_files(CheckpointOptions options) {
  if (!options.file_system) options.file_system = system_file_system();
  return options;
}

}  // namespace

void consolidate_checkpoint(const std::string& directory, const std::string& out_directory,
                            const CheckpointReadOptions& from, const CheckpointOptions& to) {
  require_another_parent(directory, out_directory);
  const checkpoint::StoredCheckpoint stored(directory, from);
  const MergedCheckpoint merged(stored);
  const CheckpointOptions options = with_files(to);
  PendingCheckpoint pending(*options.file_system, out_directory, checkpoint::new_save_id(), options,
                            checkpoint::Writer::kAlone);
  auto written = pending.write({&merged.model().table, &merged.model().source, &merged.optimizer().table,
                                &merged.optimizer().source, &merged.state()});
  pending.commit(merged.state().step, 0, std::move(written), checkpoint::Latest::kStays);
}

void reshard_checkpoint(const std::string& directory, const std::string& out_directory, std::uint32_t world_size,
                        const CheckpointReadOptions& from, const CheckpointOptions& to) {
  if (world_size == 0) throw Error(ErrorCode::kUsage, "there is no world of 0 ranks");
  require_another_parent(directory, out_directory);
  const checkpoint::StoredCheckpoint stored(directory, from);
  const MergedCheckpoint merged(stored);
  const Reshard reshard(merged, world_size);
  const CheckpointOptions options = with_files(to);
  PendingCheckpoint pending(*options.file_system, out_directory, checkpoint::new_save_id(), options,
                            checkpoint::Writer::kFirstRank);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    Share model, optimizer;
    reshard.deal(rank, model, optimizer);
    pending.write_rank(rank, world_size,
                       {&model.table, &model.source, &optimizer.table, &optimizer.source, &merged.state()},
                       reshard.sharding(rank));
  }
  pending.commit(merged.state().step, world_size, pending.gather(world_size, merged.state().step),
                 checkpoint::Latest::kStays);
}

}  // namespace tzmark
