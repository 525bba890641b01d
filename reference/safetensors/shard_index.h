// The index of a sharded model, model.safetensors.index.json: which tensor is in which file. No system calls here.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tzmark::safetensors {

// An index is read whole, so it has the limit that a header has.
inline constexpr std::uint64_t kShardIndexBytesMax = 100'000'000;
inline constexpr std::string_view kShardIndexSuffix = ".safetensors.index.json";
inline constexpr std::string_view kSuffix = ".safetensors";

// Tensors sorted by name, files too.
class ShardIndex {
 public:
  struct Tensor {
    std::uint32_t name_begin, name_length;
    std::uint32_t file;
    std::uint32_t at;  // of its key in the index
  };

  // REQUIRES: at most kShardIndexBytesMax bytes. Throws ST-016.
  explicit ShardIndex(std::string_view json);

  std::span<const std::string> files() const { return files_; }
  std::span<const Tensor> tensors() const { return tensors_; }
  std::string_view name(const Tensor& tensor) const {
    return std::string_view(names_).substr(tensor.name_begin, tensor.name_length);
  }
  // Null if the map does not name it.
  const Tensor* find(std::string_view name) const;

 private:
  std::vector<std::string> files_;
  std::vector<Tensor> tensors_;
  std::string names_;
};

// Spells an index: its metadata is the total size, then the map.
std::string serialize_shard_index(std::uint64_t total_bytes, const std::map<std::string_view, std::string_view>& files);

// "model-00002-of-00017.safetensors". Number counts from 1.
std::string shard_file_name(std::string_view base_name, std::size_t number, std::size_t count);

}  // namespace tzmark::safetensors
