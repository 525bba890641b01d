// Reading and writing safetensors files, one file or sharded. reference/SAFETENSORS.md states the rules, ST-001 on.
//
// A SafetensorsReader has checked everything that can be checked when its constructor returns: safetensors has no
// hashes. It is a TensorSource, so write_file copies from it, given its tensor_table; and write_safetensors copies from
// a Reader, or from any other source.
//
// Thread-safety: const calls may run at the same time. Calls that read many tensors start threads of their own.
// Ownership: a reader owns its files. Streams that it opened must not outlive it.
// Errors: tzmark::Error with the rule and the byte offset; an error in a shard begins with the shard's name.
// The files must not be changed by others while they are read.
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

#include "tzmark/io.h"
#include "tzmark/reader.h"
#include "tzmark/table.h"

namespace tzmark {

// How strictly a header is read.
enum class SafetensorsProfile : std::uint8_t {
  kSpec,     // what the format's description says
  kLibrary,  // what the reference library accepts: white space around the header, keys that come twice, and more
};

std::string_view safetensors_profile_name(SafetensorsProfile profile);  // "spec", "library"
std::optional<SafetensorsProfile> safetensors_profile_from_name(std::string_view name);

// Whether a file of this name should be opened here: NAME.safetensors, or NAME.safetensors.index.json.
bool is_safetensors_name(std::string_view file_name);

struct SafetensorsReadOptions {
  SafetensorsProfile profile = SafetensorsProfile::kSpec;
  std::string io_path = "auto";
  unsigned threads = 0;  // 0: one a core
  std::size_t piece_bytes = 2 << 20;
  Progress progress;  // of scan and verify: bytes of tensor data
};

// A tensor as the header lists it. The views are valid as long as the reader is.
struct SafetensorsTensor {
  std::string_view name;
  std::string_view dtype;        // as the header spells it: "F8_E4M3"
  std::string_view torch_dtype;  // "float8_e4m3fn"; empty for F4 and F6_*, which .tensors files cannot hold
  std::span<const std::uint64_t> shape;
  std::uint64_t begin, end;  // in the data of its file, which begins at data_begin of the shard
  std::size_t shard;         // index of its file in shards()

  std::uint64_t data_length() const { return end - begin; }
};

// One file. A model that is not sharded is one of these, without a name if it was not opened by name.
struct SafetensorsShard {
  std::string file_name;
  std::uint64_t file_bytes;
  std::uint64_t data_begin;  // behind length and header
  std::map<std::string, std::string> metadata;
};

class SafetensorsReader final : public TensorSource {
 public:
  explicit SafetensorsReader(std::unique_ptr<File> file, SafetensorsReadOptions options = {});
  // A name that ends in .json is that of an index: all its shards are opened, of which few stay open at a time.
  // "-" reads standard input to its end first.
  static SafetensorsReader open(const std::string& file_name, SafetensorsReadOptions options = {});
  ~SafetensorsReader() override;
  SafetensorsReader(SafetensorsReader&&) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) noexcept;

  // In the order of their shards, and in a shard of their data.
  std::size_t size() const;
  SafetensorsTensor operator[](std::size_t tensor) const;
  std::optional<std::size_t> find(std::string_view name) const;

  bool sharded() const;
  std::span<const SafetensorsShard> shards() const;
  // __metadata__; of several shards that have a key the first gives the value.
  std::map<std::string, std::string> metadata() const;
  std::uint64_t data_bytes() const;  // of all tensors
  std::uint64_t file_bytes() const;  // of all files but the index

  // The same tensors as write_file wants them, in the same order, all of kind state_dict.
  // Throws kUsage for a tensor that .tensors files cannot hold.
  TensorTable tensor_table() const;

  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;
  // The whole tensor. Throws kUsage if out is not of its size.
  void read(std::size_t tensor, MutableBuffer out) const;
  // By name. Throws TZE-USE-002 if there is none.
  void read(std::string_view name, MutableBuffer out) const;

  // Reads all data once. done is called once for each tensor, in any order, never twice at the same time.
  void scan(const std::function<void(std::size_t tensor, const std::array<std::byte, 32>& sha256)>& done) const;
  // The structure was checked when the reader was made; this also reads every byte, so that a bad disk shows.
  void verify() const;

  struct State;  // private to the library

 private:
  explicit SafetensorsReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What `tzmark dump` prints: like the canonical JSON of a .tensors file, with "format", "metadata" and, for each
// tensor, path, dtype (null if torch has none), wire_dtype, shape, data_length and sha256. Reads all data.
std::string canonical_json(const SafetensorsReader& reader);

struct SafetensorsWriteOptions {
  std::map<std::string, std::string> metadata;  // __metadata__, in every shard
  // 0: one file. Otherwise the sharded form, with this many bytes of data a shard at most; a larger tensor has a shard
  // of its own.
  std::uint64_t shard_bytes_max = 0;
  bool verify_source = true;  // check hashes that the source knows of, while its data passes by
  unsigned threads = 0;       // 0: one a core
  std::size_t piece_bytes = 2 << 20;
  std::string io_path = "auto";
  AtomicFile::Existing existing = AtomicFile::Existing::kReplace;
  Progress progress;  // bytes of tensor data
};

struct SafetensorsWriteResult {
  std::vector<std::string> file_names;  // the index last, if there is one
  std::uint64_t file_bytes;             // of all of them
};

// Throws ST-018 for what a safetensors file cannot hold: meta tensors, big-endian data, dtypes that the format lacks,
// structured names, the name __metadata__, a header that is too long. Nothing has been written then.
//
// file_name: NAME.safetensors. The sharded form is NAME-00001-of-0000N.safetensors and NAME.safetensors.index.json; it
// appears when all of its shards are whole and synced, the index last. It replaces an older one as SAFETENSORS.md says:
// the index always names whole shards of one model. source.open is called once for each tensor.
SafetensorsWriteResult write_safetensors(const std::string& file_name, const TensorTable& tensors,
                                         const TensorSource& source, const SafetensorsWriteOptions& options = {});

// The same, as one file, into a file that is open and empty; the caller syncs it. Ignores shard_bytes_max.
std::uint64_t write_safetensors(File& file, const TensorTable& tensors, const TensorSource& source,
                                const SafetensorsWriteOptions& options = {});

}  // namespace tzmark
