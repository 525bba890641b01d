// Writing .tensors files.
//
// A file appears under its name complete and synced, or not at all. The source is read in pieces of a fixed size by
// several threads; hashing, encryption and I/O overlap. One tensor's SHA-256 keeps one core busy; everything else about
// a huge tensor uses every core.
// Thread-safety: all functions are thread-safe. Errors: tzmark::Error; TZR-HDR-006 if the layout cannot hold the
// content.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tzmark/buffer.h"
#include "tzmark/crypto.h"
#include "tzmark/format.h"
#include "tzmark/io.h"
#include "tzmark/reader.h"
#include "tzmark/table.h"

namespace tzmark {

struct WriteOptions {
  std::optional<Layout> layout;  // none: lowest_layout
  bool crc32 = true;             // stores CRC32, except for encrypted data
  bool sha256 = true;            // stores SHA-256
  bool unhashed = false;         // permits tensors without any hash, which cannot be verified
  std::optional<EncryptOptions> encrypt;
  std::uint64_t index_bytes_min = 0;  // reserves room for a longer index
  bool detached_data = false;         // v5-segments: writes the data to a second file; FORMAT.md, appendix A
  bool verify_source = true;          // checks the hashes that the source knows (TensorStream::expected)
  unsigned threads = 0;               // compute threads; 0 = one per core
  std::size_t piece_bytes = 2 << 20;  // maximal size of a transfer
  std::size_t part_bytes = 0;         // the same for parts of unencrypted large tensors; 0 = the I/O path's default
  unsigned queue_depth = 0;           // transfers in flight, summed over all threads; 0 = the I/O path's default
  std::string io_path = "auto";
  AtomicFile::Existing existing = AtomicFile::Existing::kReplace;
  // Of detached data, whose two files get their names together, and of a source that is replaced.
  NamesWait names_wait = {};
  Durability durability = Durability::kIfPossible;
  Progress progress;
};

struct WriteResult {
  Layout layout;
  std::uint64_t file_bytes;    // including detached data
  bool names_durable = false;  // of write_file: whether a loss of power cannot undo the new names
};

// Returns the lowest layout that can hold the tensors; of data version 5, the released one. reason, if given, receives
// what requires it, as text.
Layout lowest_layout(const TensorTable& tensors, bool encrypted, std::string* reason = nullptr);
// Returns whether a layout can hold tensors whose lowest layout is the given one. Any later layout can, except that
// dimensions of 2^32 and more fit in only two.
constexpr bool can_hold(Layout layout, Layout lowest) {
  return has_entry_versions(lowest) ? has_entry_versions(layout) : layout >= lowest;
}

// Returns the tensors of a file as a writer writes them: with canonical names, and module indices from the headers.
// Throws TZR-NAM-009 for a name that writers refuse.
TensorTable writable_table(const Reader& reader);

// Writes the tensors in their order. Calls source.open once per tensor. Detached data goes to
// detached_data_file_name(file_name).
WriteResult write_file(const std::string& file_name, const TensorTable& tensors, const TensorSource& source,
                       const WriteOptions& options);

// The name of the file to which write_file writes detached data.
std::string detached_data_file_name(const std::string& head_file_name);

// Writes to an open, empty file, and detached data to a second one. The caller syncs them.
// REQUIRES: data_file is given if and only if options.detached_data is set; otherwise kUsage is thrown.
WriteResult write_tensors(File& file, const TensorTable& tensors, const TensorSource& source,
                          const WriteOptions& options, File* data_file = nullptr);

// Tensors in host memory, in the order of the writer's table; empty buffers for meta tensors. The memory must outlive
// the source.
class MemorySource final : public TensorSource {
 public:
  explicit MemorySource(std::vector<ConstBuffer> data) : data_(std::move(data)) {}
  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;

 private:
  std::vector<ConstBuffer> data_;
};

}  // namespace tzmark
