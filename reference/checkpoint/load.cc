// Reading whole files to memory, with tensors as views of them.
#include "checkpoint/load.h"

#include <fmt/format.h>

#include <cstring>

#include "checkpoint/names.h"
#include "io/paths.h"

namespace tzmark {
namespace checkpoint {
namespace {

// A read-only File over memory.
class MemoryView final : public File {
 public:
  explicit MemoryView(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::string_view io_path() const override { return "memory"; }
  std::uint64_t size() const override { return bytes_.size(); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    if (offset >= bytes_.size()) return 0;
    const auto part = bytes_.subspan(static_cast<std::size_t>(offset));
    const std::size_t length = std::min(part.size(), out.size);
    std::memcpy(out.data, part.data(), length);
    return length;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer) override {
    throw Error(ErrorCode::kWriteFailed, "the file is read-only");
  }
  void sync_all() override {}

 private:
  const std::span<const std::byte> bytes_;
};

std::vector<CheckpointTensor> load_tensors(const StoredCheckpoint& stored, const std::string& name,
                                           std::vector<HostMemory>& memory) {
  const auto file = stored.open(name);
  const HostMemory& content = memory.emplace_back(static_cast<std::size_t>(file->size()));
  stored.read(name, *file, content.bytes());
  return with_context(stored.path(name), [&] {
    const TensorFile tensors(name, std::make_unique<MemoryView>(content.bytes()));
    std::vector<CheckpointTensor> views;
    for (std::size_t i = 0; i < tensors.table().size(); ++i) {
      const TensorInfo tensor = tensors.table()[i];
      const auto data = content.bytes().subspan(static_cast<std::size_t>(tensors.data_offset(i)),
                                                static_cast<std::size_t>(tensor.data_length));
      views.push_back({plain_name(tensor), tensor.dtype.name, {tensor.shape.begin(), tensor.shape.end()}, data});
    }
    return views;
  });
}

LoadedCheckpoint load_shard(const StoredCheckpoint& stored, std::uint32_t rank) {
  const std::string prefix = stored.prefix(rank);
  LoadedCheckpoint loaded;
  loaded.state = stored.state(prefix);
  const auto model = stored.tensors_name(prefix, kModel);
  if (!model) {
    throw Error(ErrorCode::kCheckpointDamaged, fmt::format("{}: there is no file of the model", stored.path(prefix)));
  }
  loaded.model = load_tensors(stored, *model, loaded.memory);
  if (const auto optimizer = stored.tensors_name(prefix, kOptimizer)) {
    loaded.optimizer = load_tensors(stored, *optimizer, loaded.memory);
  }
  if (stored.sharding()) loaded.sharding = stored.sharding()->of(rank);
  if (stored.commit()) loaded.save_id = stored.commit()->save_id;
  return loaded;
}

}  // namespace

std::string plain_name(const TensorInfo& tensor) {
  const Path path = tensor.path();
  if (path.size() != 1 || !std::holds_alternative<std::string>(path.front())) {
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' has a structured name, which checkpoints do not use", display_path(path)));
  }
  return std::get<std::string>(path.front());
}

TensorFile::TensorFile(const std::string& name, std::unique_ptr<File> file) {
  if (is_safetensors_name(name)) {
    // Other programs write whatever the safetensors library reads.
    SafetensorsReadOptions options;
    options.profile = SafetensorsProfile::kLibrary;
    safetensors_.emplace(std::move(file), options);
    table_ = safetensors_->tensor_table();
    return;
  }
  tensors_.emplace(std::move(file));
  if (tensors_->header().encrypted) {
    throw Error(ErrorCode::kCryptKeyMissing, "encrypted files are not supported in checkpoints");
  }
  table_ = writable_table(*tensors_);
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (table_[i].meta()) {
      throw Error(ErrorCode::kUsage, fmt::format("'{}' is a meta tensor", display_path(table_[i].path())));
    }
  }
}

const TensorSource& TensorFile::source() const {
  return safetensors_ ? static_cast<const TensorSource&>(*safetensors_) : *tensors_;
}

std::uint64_t TensorFile::data_offset(std::size_t tensor) const {
  if (safetensors_) return safetensors_->shards().front().data_begin + (*safetensors_)[tensor].begin;
  return tensors_->tensors()[tensor].data_offset;
}

}  // namespace checkpoint

LoadedCheckpoint load_checkpoint(const std::string& directory, const CheckpointReadOptions& options) {
  return checkpoint::with_stored(directory, options, [&](const checkpoint::StoredCheckpoint& stored) {
    if (stored.world_size() != 0) {
      throw Error(ErrorCode::kCheckpointWorld, fmt::format("{}: sharded by {} ranks, each of which loads its own shard",
                                                           directory, stored.world_size()));
    }
    return checkpoint::load_shard(stored, 0);
  });
}

LoadedCheckpoint load_distributed_checkpoint(const std::string& directory, std::uint32_t rank, std::uint32_t world_size,
                                             const CheckpointReadOptions& options) {
  return checkpoint::with_stored(directory, options, [&](const checkpoint::StoredCheckpoint& stored) {
    if (stored.world_size() == 0) {
      throw Error(ErrorCode::kCheckpointWorld, fmt::format("{}: not sharded", directory));
    }
    if (stored.world_size() != world_size || rank >= world_size) {
      throw Error(ErrorCode::kCheckpointWorld, fmt::format("{}: sharded by {} ranks; rank {} of {} cannot load it",
                                                           directory, stored.world_size(), rank, world_size));
    }
    return checkpoint::load_shard(stored, rank);
  });
}

}  // namespace tzmark
