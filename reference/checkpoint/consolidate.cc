// Merging sharded checkpoints, and resharding them to another number of ranks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <tuple>
#include <utility>

#include "checkpoint/line.h"
#include "checkpoint/merge.h"
#include "checkpoint/names.h"
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

// The tensors of one kind that one rank gets.
struct Share {
  TensorTable table;
  SlicedSource source;
  std::vector<std::string> names;

  void take(const MergedTensors& all, std::size_t i) {
    const TensorInfo tensor = all.table[i];
    add(all, i, tensor.shape, {&all.source, i, tensor.data_length, tensor.data_length, 0});
  }

  // Takes one of several equal parts along the dimension that the tensor was split along.
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

// Returns the owner of each tensor, in ascending order, with about as many bytes for each rank.
std::vector<std::uint32_t> owners(const MergedTensors& model, std::uint32_t world_size) {
  std::uint64_t all_bytes = 0;
  for (std::size_t i = 0; i < model.table.size(); ++i) all_bytes += model.table[i].data_length;
  std::vector<std::uint32_t> owner(model.table.size());
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < owner.size(); ++i) {
    // The position of the middle of its bytes decides.
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
      : merged_(merged), world_size_(world_size), owners_(owners(merged.model(), world_size)), states_(world_size) {
    for (std::size_t i = 0; i < merged_.optimizer().names.size(); ++i) {
      const auto parameter = merged_.parameter_of(merged_.optimizer().names[i]);
      // A tensor of no parameter, such as a step count, goes to all ranks.
      (partitions() && parameter ? states_[owners_[*parameter]] : common_states_).push_back(i);
    }
  }

  // Throws for errors that would otherwise show after most of the checkpoint is written.
  void check() const {
    Share model, optimizer;
    deal(0, model, optimizer);
    std::uint64_t bytes = 0;
    for (std::uint32_t rank = 0; rank < world_size_ && bytes <= checkpoint::kRecordBytesMax; ++rank) {
      bytes += checkpoint::serialized_bytes(sharding(rank));
    }
    if (bytes > checkpoint::kRecordBytesMax) {
      throw Error(ErrorCode::kResource, fmt::format("{} ranks of {} parameters need a sharding_meta.json of more than "
                                                    "{} bytes",
                                                    world_size_, owners_.size(), checkpoint::kRecordBytesMax));
    }
  }

  void deal(std::uint32_t rank, Share& model, Share& optimizer) const {
    const auto [first, last] = partitions_model() ? owned(rank) : std::pair(std::size_t{0}, owners_.size());
    for (std::size_t i = first; i < last; ++i) take(merged_.model(), i, rank, model);
    for (const std::size_t i : common_states_) take(merged_.optimizer(), i, rank, optimizer);
    for (const std::size_t i : states_[rank]) take(merged_.optimizer(), i, rank, optimizer);
  }

  Sharding sharding(std::uint32_t rank) const {
    Sharding sharding = merged_.sharding();
    sharding.owned_params.clear();
    if (!partitions()) return sharding;
    auto [first, last] = owned(rank);
    // An empty list means all tensors of the rank's model.
    if (first == last && !partitions_model()) std::tie(first, last) = std::pair(std::size_t{0}, owners_.size());
    for (std::size_t i = first; i < last; ++i) sharding.owned_params.push_back(merged_.model().names[i]);
    return sharding;
  }

 private:
  bool partitions() const { return merged_.sharding().strategy == Sharding::Strategy::kZeroPartitioned; }
  // Stages 1 and 2 divide only optimizer and gradients.
  bool partitions_model() const { return partitions() && merged_.sharding().zero_stage >= 3; }

  // Returns the parameters of a rank as a half-open range.
  std::pair<std::size_t, std::size_t> owned(std::uint32_t rank) const {
    const auto range = std::ranges::equal_range(owners_, rank);
    return {static_cast<std::size_t>(range.begin() - owners_.begin()),
            static_cast<std::size_t>(range.end() - owners_.begin())};
  }

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
  std::vector<std::vector<std::size_t>> states_;  // optimizer tensors by rank
  std::vector<std::size_t> common_states_;        // optimizer tensors of all ranks
};

// In the directory of a run the result would count as the newest checkpoint of the run, also for retention. Saves of a
// run leave the file `latest` there.
void require_another_parent(const std::string& directory, const std::string& out_directory) {
  namespace fs = std::filesystem;
  const auto whole = [](const fs::path& path) {
    std::error_code error;
    fs::path found = fs::weakly_canonical(path, error);
    return error ? path.lexically_normal() : found;
  };
  const fs::path parent = whole(directory).parent_path();
  if (whole(checkpoint::place_of(out_directory).parent) == parent) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: in the same directory as {}, it would count as a checkpoint of that run",
                            out_directory, directory));
  }
  const Directory out_parent(checkpoint::place_of(out_directory).parent);
  if (out_parent.has(std::string(checkpoint::kLatestName))) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: it would count as the newest checkpoint of the run that saves there "
                            "({} exists): choose another directory",
                            out_directory, out_parent.path(std::string(checkpoint::kLatestName))));
  }
}

}  // namespace

WriteReport consolidate_checkpoint(const std::string& directory, const std::string& out_directory,
                                   const CheckpointReadOptions& from, const CheckpointOptions& to) {
  to.check();
  require_another_parent(directory, out_directory);
  const checkpoint::StoredCheckpoint stored(Directory(directory), from);
  const MergedCheckpoint merged(stored);
  checkpoint::Line line;
  PendingCheckpoint pending(out_directory, checkpoint::new_save_id(), to, checkpoint::Writer::kAlone);
  auto written = pending.write({&merged.model().table, &merged.model().source, &merged.optimizer().table,
                                &merged.optimizer().source, &merged.state()});
  pending.commit(merged.state().step, 0, std::move(written), checkpoint::Latest::kStays, line);
  return pending.report();
}

WriteReport reshard_checkpoint(const std::string& directory, const std::string& out_directory, std::uint32_t world_size,
                               const CheckpointReadOptions& from, const CheckpointOptions& to) {
  checkpoint::check_world_size(world_size);
  to.check();
  require_another_parent(directory, out_directory);
  const checkpoint::StoredCheckpoint stored(Directory(directory), from);
  const MergedCheckpoint merged(stored);
  const Reshard reshard(merged, world_size);
  reshard.check();
  checkpoint::Line line;
  PendingCheckpoint pending(out_directory, checkpoint::new_save_id(), to, checkpoint::Writer::kFirstRank);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    Share model, optimizer;
    reshard.deal(rank, model, optimizer);
    pending.write_rank(rank, world_size,
                       {&model.table, &model.source, &optimizer.table, &optimizer.source, &merged.state()},
                       reshard.sharding(rank));
  }
  pending.commit(merged.state().step, world_size, pending.gather(world_size, merged.state().step),
                 checkpoint::Latest::kStays, line);
  return pending.report();
}

}  // namespace tzmark
