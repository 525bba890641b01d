// The index of a sharded model, model.safetensors.index.json, which maps tensors to files.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/io.h"

namespace tzmark::safetensors {

// An index is read as a whole, so it has the same limit as a header.
inline constexpr std::uint64_t kShardIndexBytesMax = 100'000'000;
inline constexpr std::string_view kShardIndexSuffix = ".safetensors.index.json";
inline constexpr std::string_view kSuffix = ".safetensors";

// Tensors and files are sorted by name.
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
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // its texts
  std::string_view name(const Tensor& tensor) const {
    return std::string_view(names_).substr(tensor.name_begin, tensor.name_length);
  }
  // Returns null if the map does not contain the name.
  const Tensor* find(std::string_view name) const;

 private:
  std::vector<std::string> files_;
  std::vector<Tensor> tensors_;
  std::string names_;
  std::map<std::string, std::string> metadata_;
};

// Returns whether a file is an index: by its content or, if that begins like no model, by a name that ends in .json.
bool is_shard_index(File& file, std::string_view file_name);

// Returns whether a name is that of an index, in upper or lower case; "model.safetensors.index.fp16.json" is one of a
// variant.
bool is_index_name(std::string_view file_name);

// Serializes an index: metadata and the total size, then the map.
std::string serialize_shard_index(std::uint64_t total_bytes, const std::map<std::string_view, std::string_view>& files,
                                  const std::map<std::string, std::string>& metadata = {});

// Returns a name such as "model-00002-of-00017.safetensors". number counts from 1.
std::string shard_file_name(std::string_view base_name, std::size_t number, std::size_t count);

}  // namespace tzmark::safetensors
