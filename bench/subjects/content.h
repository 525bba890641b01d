// The data that is moved: tensors of a workload filled with random bytes, and files of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "harness/removed_directory.h"
#include "subjects/subject.h"
#include "tzmark/memory.h"
#include "tzmark/writer.h"
#include "workloads/workload.h"

namespace tzmark::bench {

// The tensors of a workload, in its order.
TensorTable table_of(const Workload& workload);

// The tensors in memory, filled with random bytes that no other object and no other process has: storage that keeps
// equal blocks once must not do so here. Only the version changes afterwards, by one thread at a time.
class TensorContent {
 public:
  // memory_bytes_max: with more data than this, all tensors share memory of this size. REQUIRES: no tensor is larger.
  explicit TensorContent(Workload workload, std::uint64_t memory_bytes_max = ~std::uint64_t{0});

  const Workload& workload() const { return workload_; }
  const TensorTable& table() const { return table_; }
  std::uint64_t data_bytes() const { return offsets_.back(); }
  // All tensors, one after another. REQUIRES: they do not share memory.
  std::span<const std::byte> bytes() const { return memory_.bytes(); }
  std::span<const std::byte> operator[](std::size_t tensor) const {
    const std::uint64_t length = offsets_[tensor + 1] - offsets_[tensor];
    return memory_.bytes().subspan(memory_.bytes().size() < data_bytes() ? 0 : offsets_[tensor], length);
  }
  MemorySource source() const;

  // The version is a number in the first bytes of every 4 KiB of each tensor. A new one before each write gives every
  // file other blocks for the price of one store per page.
  std::uint64_t version() const { return version_; }
  std::uint64_t make_version(std::uint64_t version) const;
  std::uint64_t make_new_version() const { return make_version(newest_version_ + 1); }

 private:
  mutable std::uint64_t version_ = 0, newest_version_ = 0;
  Workload workload_;
  TensorTable table_;
  std::vector<std::uint64_t> offsets_;
  HostMemory memory_;
};

// How a file stores the data.
struct FileFormat {
  Layout layout = Layout::kV4;
  bool crc32 = true;
  bool sha256 = true;
  bool encrypted = false;

  auto operator<=>(const FileFormat&) const = default;
};

// The key of all encrypted benchmark files; not a secret.
std::string_view bench_key_hex();

// A temporary subdirectory of the measured directory, removed with all its files when the object is destroyed.
class Workplace {
 public:
  explicit Workplace(const std::string& directory);
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::string& directory() const { return directory_.name(); }
  // Returns a new file name.
  std::string new_name(std::string_view suffix);
  // Returns the name of a file with the content. The first call writes, syncs and verifies it by its hashes. Each cache
  // state has a file of its own, so that no read finds what another one has done to the page cache; the warm one is
  // dropped from it and read once. The content is made the version that the file holds. REQUIRES: it stores hashes or
  // MACs.
  const std::string& file(const std::shared_ptr<const TensorContent>& content, const FileFormat& stored, Cache cache);
  // The same for a file with the bytes of the content alone.
  const std::string& raw_file(const std::shared_ptr<const TensorContent>& content, Cache cache);
  // The same for a safetensors file.
  const std::string& safetensors_file(const std::shared_ptr<const TensorContent>& content);
  // Makes the next calls of these three write new files. Returns the names of the old ones, which stay.
  std::vector<std::string> forget();
  // Removes all files, but not the directory.
  void clear();

 private:
  struct Made {
    std::string name;  // empty: not yet
    std::uint64_t version = 0;
  };

  const RemovedDirectory directory_;
  std::uint64_t names_ = 0;
  // Owns the contents, because they are told apart by their addresses.
  std::map<std::tuple<std::shared_ptr<const TensorContent>, FileFormat, Cache>, Made> files_;
  std::map<std::pair<std::shared_ptr<const TensorContent>, Cache>, Made> raw_files_;
  std::map<std::shared_ptr<const TensorContent>, Made> safetensors_files_;
};

// Throws TZE-ENV-005 if the file does not hold exactly the content.
void require_same_content(const std::string& file_name, const TensorContent& content, bool encrypted);

// The options that write and read such files.
WriteOptions write_options(const FileFormat& stored);
ReadOptions read_options(bool encrypted);

}  // namespace tzmark::bench
