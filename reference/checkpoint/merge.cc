// Joining shards, and refusing those that do not fit together.
#include "checkpoint/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "checkpoint/names.h"
#include "io/paths.h"

namespace tzmark::checkpoint {
namespace {

using Files = std::vector<std::unique_ptr<TensorFile>>;
using Shape = std::vector<std::uint64_t>;

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::kCheckpointShards, reason); }

std::uint64_t product(std::span<const std::uint64_t> dimensions) {
  return std::accumulate(dimensions.begin(), dimensions.end(), std::uint64_t{1}, std::multiplies<>());
}

// The position of each name in each rank's file. Names are in the order of their first occurrence.
class NameIndex {
 public:
  explicit NameIndex(const Files& files) : files_(files) {
    for (std::size_t rank = 0; rank < files.size(); ++rank) {
      if (!files[rank]) continue;
      for (std::size_t i = 0; i < files[rank]->table().size(); ++i) add(rank, i);
    }
  }

  const std::vector<std::string>& names() const { return names_; }
  std::optional<std::size_t> find(std::size_t rank, const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? std::nullopt : found->second[rank];
  }
  // Throws if the rank has no such tensor.
  std::size_t at(std::size_t rank, const std::string& name) const {
    const auto found = find(rank, name);
    if (!found) refuse(fmt::format("rank {} lacks '{}'", rank, name));
    return *found;
  }
  TensorInfo info(std::size_t rank, const std::string& name) const { return files_[rank]->table()[at(rank, name)]; }
  const TensorSource& source(std::size_t rank) const { return files_[rank]->source(); }
  std::size_t rank_count() const { return files_.size(); }

 private:
  void add(std::size_t rank, std::size_t tensor) {
    const std::string name = plain_name(files_[rank]->table()[tensor]);
    const auto [place, is_new] = places_.try_emplace(name, files_.size());
    if (is_new) names_.push_back(name);
    place->second[rank] = tensor;
  }

  const Files& files_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<std::optional<std::size_t>>> places_;
};

// Adds a tensor that is equal on all ranks that have it; throws if it is not.
void add_common(MergedTensors& merged, const NameIndex& index, const std::string& name) {
  std::size_t owner = 0;
  while (!index.find(owner, name)) ++owner;
  const TensorInfo tensor = index.info(owner, name);
  const std::size_t place = index.at(owner, name);
  for (std::size_t rank = owner + 1; rank < index.rank_count(); ++rank) {
    const auto other_place = index.find(rank, name);
    if (!other_place) continue;
    const TensorInfo other = index.info(rank, name);
    if (tensor.dtype != other.dtype || !std::ranges::equal(tensor.shape, other.shape) ||
        !same_bytes(index.source(owner), place, index.source(rank), *other_place, tensor.data_length)) {
      refuse(fmt::format("ranks {} and {} have different tensors '{}'", owner, rank, name));
    }
  }
  merged.table.add({name}, Kind::kStateDict, tensor.dtype, tensor.shape);
  merged.source.add({{{&index.source(owner), place, tensor.data_length, tensor.data_length, 0}}});
  merged.names.push_back(name);
  merged.split_dims.emplace_back();
}

// Adds a tensor that is joined from all ranks along a dimension.
void add_joined(MergedTensors& merged, const NameIndex& index, const std::string& name, std::uint64_t dimension) {
  const TensorInfo first = index.info(0, name);
  if (dimension >= first.shape.size()) {
    refuse(fmt::format("'{}' has {} dimensions, and is split along dimension {}", name, first.shape.size(), dimension));
  }
  Shape shape(first.shape.begin(), first.shape.end());
  const auto at = static_cast<std::size_t>(dimension);
  shape[at] = 0;
  SlicedTensor joined;
  for (std::size_t rank = 0; rank < index.rank_count(); ++rank) {
    const TensorInfo part = index.info(rank, name);
    Shape others(part.shape.begin(), part.shape.end());
    if (others.size() == shape.size()) others[at] = shape[at];
    if (part.dtype != first.dtype || others != shape) {
      refuse(fmt::format("'{}' of rank {} is {} of shape [{}], and that of rank 0 is {} of shape [{}]", name, rank,
                         part.dtype.name, fmt::join(part.shape, ", "), first.dtype.name, fmt::join(first.shape, ", ")));
    }
    const std::uint64_t row_bytes = product(part.shape.subspan(at)) * part.dtype.item_bytes;
    joined.parts.push_back({&index.source(rank), index.at(rank, name), row_bytes, row_bytes, 0});
    if (__builtin_add_overflow(shape[at], part.shape[at], &shape[at])) refuse(fmt::format("'{}' is too large", name));
  }
  merged.table.add({name}, Kind::kStateDict, first.dtype, shape);
  merged.source.add(std::move(joined));
  merged.names.push_back(name);
  merged.split_dims.emplace_back(dimension);
}

void require_on_all_ranks(const NameIndex& index, const std::string& name) {
  for (std::size_t rank = 0; rank < index.rank_count(); ++rank) index.at(rank, name);
}

// Returns the parameter that NAME.ANYTHING belongs to: the one with the longest matching name.
std::optional<std::string> parameter_name(std::string name, const auto& is_parameter) {
  for (;;) {
    if (is_parameter(name)) return name;
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return std::nullopt;
    name.resize(dot);
  }
}

// Returns whether a tensor is split in the same shapes as the parameter.
bool follows(const NameIndex& index, const std::string& name, const NameIndex& model, const std::string& parameter) {
  for (std::size_t rank = 0; rank < index.rank_count(); ++rank) {
    const TensorInfo tensor = index.info(rank, name), shard = model.info(rank, parameter);
    if (!std::ranges::equal(tensor.shape, shard.shape)) return false;
  }
  return true;
}

void merge_tensor_parallel(MergedTensors& merged, const NameIndex& index, const NameIndex& model,
                           const Sharding& sharding) {
  const auto is_parameter = [&](const std::string& name) { return model.find(0, name).has_value(); };
  for (const std::string& name : index.names()) {
    require_on_all_ranks(index, name);
    const auto parameter = parameter_name(name, is_parameter);
    const auto split = parameter ? sharding.split_dims.find(*parameter) : sharding.split_dims.end();
    if (split != sharding.split_dims.end() && follows(index, name, model, *parameter)) {
      add_joined(merged, index, name, split->second);
    } else {
      add_common(merged, index, name);
    }
  }
}

void merge(MergedTensors& merged, const NameIndex& index, const NameIndex& model, const Sharding& sharding) {
  if (sharding.strategy == Sharding::Strategy::kTensorParallel) {
    return merge_tensor_parallel(merged, index, model, sharding);
  }
  for (const std::string& name : index.names()) {
    if (sharding.strategy == Sharding::Strategy::kReplicated) require_on_all_ranks(index, name);
    add_common(merged, index, name);
  }
}

// Throws unless every rank has the tensors that its record lists.
void check_promises(const NameIndex& model, const ShardingMeta& meta) {
  for (std::size_t rank = 0; rank < meta.world_size(); ++rank) {
    const Sharding& shard = meta.of(rank);
    for (const std::string& name : shard.owned_params) model.at(rank, name);
    for (const auto& split : shard.split_dims) {
      if (shard.strategy == Sharding::Strategy::kTensorParallel) model.at(rank, split.first);
    }
    if (shard.strategy != meta.of(0).strategy || shard.split_dims != meta.of(0).split_dims) {
      refuse(fmt::format("ranks 0 and {} were sharded in different ways", rank));
    }
  }
}

// A File whose errors begin with its name: otherwise a read error would seem to be about the file being written.
class NamedFile final : public File {
 public:
  NamedFile(std::string name, std::unique_ptr<File> file) : name_(std::move(name)), file_(std::move(file)) {}
  std::string_view io_path() const override { return file_->io_path(); }
  std::uint64_t size() const override { return file_->size(); }
  std::size_t transfer_align_bytes() const override { return file_->transfer_align_bytes(); }
  std::size_t memory_align_bytes() const override { return file_->memory_align_bytes(); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    with_context(name_, [&] { file_->read_at(offset, out); });
    return out.size;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer) override {
    throw Error(ErrorCode::kWriteFailed, name_ + ": the file is read-only");
  }
  void sync_all() override {}

 private:
  const std::string name_;
  const std::unique_ptr<File> file_;
};

std::unique_ptr<TensorFile> open_tensors(const StoredCheckpoint& stored, std::uint32_t rank, std::string_view stem) {
  const auto name = stored.tensors_name(stored.prefix(rank), stem);
  if (!name) return nullptr;
  if (stored.commit()) stored.read(*name, *stored.open(*name), {});
  return with_context(stored.path(*name), [&] {
    return std::make_unique<TensorFile>(*name, std::make_unique<NamedFile>(stored.path(*name), stored.open(*name)));
  });
}

}  // namespace

MergedCheckpoint::MergedCheckpoint(const StoredCheckpoint& stored) {
  if (stored.world_size() == 0) {
    throw Error(ErrorCode::kCheckpointWorld, fmt::format("{}: it is not sharded", stored.directory()));
  }
  sharding_ = stored.sharding()->of(0);
  for (std::uint32_t rank = 0; rank < stored.world_size(); ++rank) {
    const TrainingState state = stored.state(stored.prefix(rank));
    if (rank == 0) state_ = state;
    if (state.step != state_.step) {
      throw Error(ErrorCode::kCheckpointState, fmt::format("{}: rank {} is at step {}, and rank 0 at step {}",
                                                           stored.directory(), rank, state.step, state_.step));
    }
    model_files_.push_back(open_tensors(stored, rank, kModel));
    if (!model_files_.back()) refuse(fmt::format("{}: rank {} has no model", stored.directory(), rank));
    optimizer_files_.push_back(open_tensors(stored, rank, kOptimizer));
  }
  // Without a commit.json, a lost file looks like one that never existed.
  const auto lacks = [](const std::unique_ptr<TensorFile>& file) { return file == nullptr; };
  const auto lacking = std::ranges::find_if(optimizer_files_, lacks);
  if (!stored.commit() && lacking != optimizer_files_.end() && !std::ranges::all_of(optimizer_files_, lacks)) {
    refuse(fmt::format("{}: rank {} has no optimizer, and others have", stored.directory(),
                       lacking - optimizer_files_.begin()));
  }
  with_context(stored.directory(), [&] {
    const NameIndex model(model_files_), optimizer(optimizer_files_);
    check_promises(model, *stored.sharding());
    merge(model_, model, model, sharding_);
    merge(optimizer_, optimizer, model, sharding_);
  });
  for (std::size_t i = 0; i < model_.names.size(); ++i) model_places_[model_.names[i]] = i;
}

std::optional<std::size_t> MergedCheckpoint::parameter_of(const std::string& optimizer_name) const {
  const auto name = parameter_name(optimizer_name, [&](const std::string& n) { return model_places_.contains(n); });
  return name ? std::optional(model_places_.at(*name)) : std::nullopt;
}

}  // namespace tzmark::checkpoint
