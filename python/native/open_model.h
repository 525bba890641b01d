// One open model file of either format, for the reader of the module. Knows nothing of Python.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "blocking.h"
#include "file_mapping.h"
#include "memory.h"
#include "slices.h"
#include "tzmark/io.h"
#include "tzmark/model_file.h"
#include "tzmark/reader.h"
#include "tzmark/safetensors.h"

namespace tzmark::py {

struct OpenOptions {
  std::string file_name;            // empty: data is given
  std::span<const std::byte> data;  // outlives the model
  SafetensorsProfile profile = SafetensorsProfile::kSpec;
  bool mapped = false;  // tensors are views of the file, for which they must be neither encrypted nor verified
  ReadOptions read;
};

struct ModelTensor {
  Path path;
  Dtype dtype;
  std::string stored_dtype;  // as in the file: "<f4", "F32"
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  bool meta = false;
  std::string kind;  // "parameter", "buffer" or "state_dict"
};

// Opens the file or the data of the options, and tells its format.
ModelFile find_model(const OpenOptions& options);

// What a reader says about a tensor.
ModelTensor model_tensor(const TensorInfo& info);
// All tensors of a file, in the memory of what its reader has loaded.
std::vector<TensorMemory> memory_of(const Reader& reader, LoadedTensors loaded);

// Thread-safe. Calls count on the meter and throw Cancelled as it says.
class OpenModel {
 public:
  // model: what find_model returns for the options.
  OpenModel(OpenOptions options, ModelFile model);

  std::size_t size() const;
  ModelTensor operator[](std::size_t tensor) const;
  std::uint64_t file_bytes() const;
  // Of the file that is open: that in a directory if a directory was given.
  const std::string& file_name() const { return file_name_; }
  // Whether tensors are views of the file, so that reading one takes no time.
  bool is_mapped() const { return is_mapped_; }
  bool is_safetensors() const { return safetensors_.has_value(); }
  const Reader& tensors() const { return *tensors_; }
  const SafetensorsReader& safetensors() const { return *safetensors_; }
  // What a writer copies from.
  const TensorSource& source() const;
  TensorTable writable_table() const;
  // Whether a read of few bytes may take long: it derives a key, or waits for a server.
  bool may_wait() const { return has_passphrase_ || is_url(file_name_); }
  Meter& meter() { return *meter_; }
  // Throws in a process forked after the model was opened, if its I/O path works in one process only.
  void require_same_process() const;

  // All tensors, in one allocation or mapping per shard.
  std::vector<TensorMemory> load(Verification verify, HostMemory::Pages pages) const;
  TensorMemory read(std::size_t tensor, Verification verify) const;
  // The same in memory of a GPU: of all tensors in one allocation per file, or of one. A meta tensor has none.
  std::vector<TensorMemory> load_into_device(Verification verify, int device) const;
  TensorMemory read_into_device(std::size_t tensor, Verification verify, int device) const;
  // All elements of a tensor.
  Slice whole(std::size_t tensor) const;
  // Throws kUsage for a slice that lies outside its tensor.
  std::uint64_t bytes_of(std::span<const Slice> slices) const;
  // Reads whole tensors into memory of the caller, of the size of each, on the host or on one GPU. If this throws, the
  // content of that memory is undefined.
  void read_into(std::span<const ReadTarget> targets, Verification verify) const;
  // Parts of tensors, in one allocation of the host or of a GPU. Hashes, which cover whole tensors, are not checked.
  std::vector<TensorMemory> read_slices(std::span<const Slice> slices, HostMemory::Pages pages,
                                        std::optional<int> device) const;
  void verify() const;
  // The same of what load or load_into_device has returned, against the hashes of the file; nothing of safetensors.
  void check_loaded(std::span<const TensorMemory> loaded, Verification verify) const;

 private:
  void require_not_mapped() const;
  std::vector<TensorMemory> load_safetensors(HostMemory::Pages pages) const;
  TensorMemory describe(std::size_t tensor) const;
  TensorMemory describe(const Slice& slice) const;
  std::string shard_name(std::size_t shard) const;
  // The mapping of a shard, or of the file with the data of the tensors. Made at first use and kept.
  std::shared_ptr<const FileMapping> mapping(std::size_t shard) const;
  // The tensor as a view of its mapping, or a copy if its data is not aligned.
  TensorMemory map(std::size_t tensor) const;

  std::shared_ptr<Meter> meter_ = std::make_shared<Meter>();
  std::string file_name_;
  std::string io_path_;
  std::string data_file_name_;  // the file that is mapped, unless it is a safetensors file
  bool is_mapped_ = false;
  mutable std::mutex mappings_mutex_;
  mutable std::vector<std::shared_ptr<const FileMapping>> mappings_;
  unsigned threads_ = 0;
  bool has_passphrase_ = false;
  std::optional<Reader> tensors_;
  std::optional<SafetensorsReader> safetensors_;
  const pid_t process_;
};

// Returns the same tensor, copied if its data is not aligned to its elements.
TensorMemory with_aligned_data(TensorMemory memory);

}  // namespace tzmark::py
