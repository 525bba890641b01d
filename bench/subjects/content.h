// What is moved: the tensors of a workload with random bytes in them, and the files that hold them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tzmark/memory.h"
#include "tzmark/writer.h"
#include "workloads/workload.h"

namespace tzmark::bench {

// The tensors in memory, filled once from a seed. Immutable afterwards.
class TensorContent {
 public:
  // memory_bytes_max: if the data is more, all tensors show the beginning of memory of that size. REQUIRES: none of
  // them is larger.
  explicit TensorContent(Workload workload, std::uint64_t memory_bytes_max = ~std::uint64_t{0});

  const Workload& workload() const { return workload_; }
  const TensorTable& table() const { return table_; }
  std::uint64_t data_bytes() const { return offsets_.back(); }
  // All tensors, one behind another. REQUIRES: they share no memory.
  std::span<const std::byte> bytes() const { return memory_.bytes(); }
  std::span<const std::byte> operator[](std::size_t tensor) const {
    const std::uint64_t length = offsets_[tensor + 1] - offsets_[tensor];
    return memory_.bytes().subspan(memory_.bytes().size() < data_bytes() ? 0 : offsets_[tensor], length);
  }
  MemorySource source() const;

 private:
  Workload workload_;
  TensorTable table_;
  std::vector<std::uint64_t> offsets_;
  HostMemory memory_;
};

// What is stored beside the data, or done to it.
struct FileFormat {
  Layout layout = Layout::kV4;
  bool crc32 = true;
  bool sha256 = true;
  bool encrypted = false;

  auto operator<=>(const FileFormat&) const = default;
};

// The one key of the benchmark; it hides nothing.
std::string_view bench_key_hex();

// A folder of its own below the directory that is measured, gone with all in it when the object is.
class Workplace {
 public:
  explicit Workplace(const std::string& directory);
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::string& directory() const { return directory_; }
  // A name that no other call has given.
  std::string new_name(std::string_view suffix);
  // A file with the content, made when it is first asked for, synced, and verified by its hashes. REQUIRES: it has any.
  const std::string& file(const std::shared_ptr<const TensorContent>& content, const FileFormat& stored);
  // The content's bytes alone in a file, for those who make their own of it.
  const std::string& raw_file(const std::shared_ptr<const TensorContent>& content);
  // Removes all files but not the folder.
  void clear();

 private:
  std::string directory_;
  std::uint64_t names_ = 0;
  // Keeps the content, so that no other can come to lie where it was.
  std::map<std::pair<std::shared_ptr<const TensorContent>, FileFormat>, std::string> files_;
  std::map<std::shared_ptr<const TensorContent>, std::string> raw_files_;
};

// Throws TZE-ENV-005 where the file does not hold exactly the content.
void require_same_content(const std::string& file_name, const TensorContent& content, bool encrypted);

// The options to write and to read what is so stored.
WriteOptions write_options(const FileFormat& stored);
ReadOptions read_options(bool encrypted);

}  // namespace tzmark::bench
