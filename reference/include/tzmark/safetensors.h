// Reading and writing safetensors files, single or sharded. reference/SAFETENSORS.md states the rules, from ST-001 on.
//
// The constructor of a SafetensorsReader checks everything that can be checked, since safetensors has no hashes. It is
// a TensorSource: write_file copies from it, given its tensor_table. write_safetensors copies from a Reader or any
// other source.
//
// Thread-safety: const calls are thread-safe. Calls that read many tensors start threads.
// Ownership: a reader owns its files. The streams that it opens must not outlive it.
// Errors: tzmark::Error with the rule and the byte offset; the message of an error in a shard begins with its file
// name. The files must not change while they are read.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/device_memory.h"
#include "tzmark/io.h"
#include "tzmark/reader.h"
#include "tzmark/table.h"

namespace tzmark {

// How strictly a header is read.
enum class SafetensorsProfile : std::uint8_t {
  kSpec,     // as the format's description says
  kLibrary,  // as the reference library accepts it: white space around the header, duplicate keys, and more
};

std::string_view safetensors_profile_name(SafetensorsProfile profile);  // "spec", "library"
std::optional<SafetensorsProfile> safetensors_profile_from_name(std::string_view name);

// Returns whether a file name is that of a safetensors model: NAME.safetensors, NAME.safetensors.index.json, or that
// with a variant, as in NAME.safetensors.index.fp16.json; in upper or lower case. tzmark/model_file.h tells the format
// of an existing file.
bool is_safetensors_name(std::string_view file_name);

struct SafetensorsReadOptions {
  SafetensorsProfile profile = SafetensorsProfile::kSpec;
  std::string io_path = "auto";
  unsigned threads = 0;               // compute threads; 0 = one per core
  std::size_t piece_bytes = 2 << 20;  // maximal size of a transfer; from a server 8 MiB, unless it is set otherwise
  Progress progress;                  // bytes of tensor data; called by scan, verify, read_shard and load_into_device
};

// A tensor as the header lists it. The views are valid as long as the reader.
struct SafetensorsTensor {
  std::string_view name;
  std::string_view dtype;        // as in the header: "F8_E4M3"
  std::string_view torch_dtype;  // "float8_e4m3fn"; empty for F4 and F6_*, which .tensors files cannot hold
  std::span<const std::uint64_t> shape;
  std::uint64_t begin, end;  // relative to data_begin of the shard
  std::size_t shard;         // index in shards()

  std::uint64_t data_length() const { return end - begin; }
};

// One file of a model. A model that is not sharded has one, whose name is empty if it was not opened by name.
struct SafetensorsShard {
  std::string file_name;
  std::uint64_t file_bytes;
  std::uint64_t data_begin;  // after the length and the header
  std::map<std::string, std::string> metadata;
  std::optional<FileVersion> version;  // of the file that was opened
};

class SafetensorsReader final : public TensorSource {
 public:
  explicit SafetensorsReader(std::unique_ptr<File> file, SafetensorsReadOptions options = {});
  // Opens a file, or all shards of an index, which is known by its content or by a name that ends in .json. Keeps only
  // a few shards open at a time; one that was replaced or changed before it is opened again is an error, TZE-ENV-005.
  // "-" first copies standard input to a temporary file.
  static SafetensorsReader open(const std::string& file_name, SafetensorsReadOptions options = {});
  // The same for a file that is open already, under this name.
  static SafetensorsReader open(std::unique_ptr<File> file, const std::string& file_name,
                                SafetensorsReadOptions options = {});
  ~SafetensorsReader() override;
  SafetensorsReader(SafetensorsReader&&) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) noexcept;

  // Tensors are ordered by shard, then by the position of their data.
  std::size_t size() const;
  SafetensorsTensor operator[](std::size_t tensor) const;
  std::optional<std::size_t> find(std::string_view name) const;

  bool sharded() const;
  std::span<const SafetensorsShard> shards() const;
  // __metadata__ of all shards; if several have a key, the first one determines its value.
  std::map<std::string, std::string> metadata() const;
  // The texts in the "metadata" of the index. Numbers, such as total_size, describe the files and are left out.
  const std::map<std::string, std::string>& index_metadata() const;
  std::uint64_t data_bytes() const;  // of all tensors
  std::uint64_t file_bytes() const;  // of all files except the index

  // The same tensors in the same order, for write_file; all of kind state_dict.
  // Throws kUsage for a tensor that .tensors files cannot hold.
  TensorTable tensor_table() const;
  std::vector<FileVersion> files() const override;

  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;
  // Reads the whole tensor. Throws kUsage unless out has its size.
  void read(std::size_t tensor, MutableBuffer out) const;
  // Throws TZE-USE-002 if there is no tensor of that name.
  void read(std::string_view name, MutableBuffer out) const;
  // Reads the tensor data of each shard into an allocation of GPU memory, in which the tensors lie as in the file.
  // Throws as Reader::load_into_device; there is nothing to verify. Calls progress.
  std::vector<DeviceMemory> load_into_device(const DeviceReadOptions& options) const;
  // The same for tensors into memory of the caller, which must have their size. Those of a shard are read together;
  // they may be on several GPUs. Nothing is written if the memory of one does not fit.
  void read_into_device(std::size_t tensor, MutableBuffer out, const DeviceReadOptions& options) const;
  void read_into_device(std::span<const ReadTarget> targets, const DeviceReadOptions& options) const;
  // Reads bytes of the file of a shard with several threads. Throws TZE-ENV-005 if they are not all there.
  void read_shard(std::size_t shard, std::uint64_t offset, MutableBuffer out) const;

  // Reads all data once. Calls done once per tensor, in any order, one call at a time.
  void scan(const std::function<void(std::size_t tensor, const std::array<std::byte, 32>& sha256)>& done) const;
  // Reads every byte, which reveals disk errors. The constructor has checked the structure.
  void verify() const;

 private:
  struct State;
  explicit SafetensorsReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Returns what `tzmark dump` prints: like the canonical JSON of a .tensors file, with "format", "metadata" and, per
// tensor, path, dtype (null if torch has none), wire_dtype, shape, data_length and sha256. Reads all data.
std::string canonical_json(const SafetensorsReader& reader);

// What safetensors files of PyTorch say about themselves: "format" is "pt". Several loaders refuse a file without it.
// A .tensors file, whose types are PyTorch's, implies it.
std::map<std::string, std::string> torch_metadata();

// Throws kUsage if metadata would be lost in a .tensors file, which has none: any but torch_metadata(). advice: what
// the user can do, as the end of the message.
void require_no_lost_metadata(const std::map<std::string, std::string>& metadata, std::string_view advice);

// Throws kUsage if the shards and the index of a model have different values of a key, of which a single file can hold
// only one. settled: keys whose value is given. advice: what the user can do, as the end of the message.
void require_one_metadata(const SafetensorsReader& reader, const std::map<std::string, std::string>& settled,
                          std::string_view advice);

struct SafetensorsWriteOptions {
  std::map<std::string, std::string> metadata;        // __metadata__, in every shard
  std::map<std::string, std::string> index_metadata;  // of the index, in the sharded form
  // 0: one file. Otherwise the sharded form, with at most this many bytes of data per shard; a larger tensor gets a
  // shard for itself.
  std::uint64_t shard_bytes_max = 0;
  bool verify_source = true;  // checks the hashes that the source knows (TensorStream::expected)
  unsigned threads = 0;       // compute threads; 0 = one per core
  std::size_t piece_bytes = 2 << 20;
  std::string io_path = "auto";
  AtomicFile::Existing existing = AtomicFile::Existing::kReplace;
  // Of the sharded form, whose files get their names together, and of a source that is replaced.
  NamesWait names_wait = {};
  Durability durability = Durability::kIfPossible;
  Progress progress;  // bytes of tensor data
};

struct SafetensorsWriteResult {
  std::vector<std::string> file_names;  // the index last, if there is one
  std::uint64_t file_bytes;             // of all of them
  bool names_durable = false;           // whether a loss of power cannot undo the new names
  // Shards of the old model that were not removed, because another user could have written the index that names them.
  std::vector<std::string> old_file_names = {};
};

// Writes a model. Throws ST-018, before it writes anything, for what a safetensors file cannot hold: meta tensors,
// big-endian data, dtypes that the format lacks, structured names, the name __metadata__, a header that is too long.
//
// file_name: NAME.safetensors. The sharded form is NAME-00001-of-0000N.safetensors and NAME.safetensors.index.json. Its
// files appear when all shards are complete and synced, the index last. SAFETENSORS.md says how it replaces an older
// model: at any time the index names complete shards of a single model. Calls source.open once per tensor.
SafetensorsWriteResult write_safetensors(const std::string& file_name, const TensorTable& tensors,
                                         const TensorSource& source, const SafetensorsWriteOptions& options = {});

// Returns the end of a sentence, for a note about old_file_names.
std::string why_files_are_kept(std::span<const std::string> old_file_names);

// Writes a single model file to an open, empty file, and returns its size. The caller syncs it. Ignores
// shard_bytes_max.
std::uint64_t write_safetensors(File& file, const TensorTable& tensors, const TensorSource& source,
                                const SafetensorsWriteOptions& options = {});

}  // namespace tzmark
