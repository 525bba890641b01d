// Writing .tensors files.
//
// A file appears under its name whole and synced, or not at all. Data is asked from the source in pieces of fixed size,
// from several threads; hashing, encryption and I/O overlap. One tensor's SHA-256 is a chain that keeps one core busy;
// all else of a huge tensor uses every core.
// Errors: tzmark::Error; what the content needs and the layout lacks is TZR-HDR-006.
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
  std::optional<Layout> layout;  // none: the lowest data version that the content needs
  bool crc32 = true;             // of unencrypted and of meta tensors
  bool sha256 = true;
  bool unhashed = false;  // allow neither, though nobody can verify such a tensor
  std::optional<EncryptOptions> encrypt;
  std::uint64_t index_bytes_min = 0;  // room for an index that is longer than its entries
  bool split = false;                 // v5-segments: the data goes to a file of its own; FORMAT.md, appendix A
  bool verify_source = true;          // check hashes that the source knows of, while its data passes by
  unsigned threads = 0;               // that compute at a time; 0: one a core
  std::size_t piece_bytes = 2 << 20;  // of a transfer, at most
  unsigned queue_depth = 0;           // transfers in flight, over all threads; 0: what suits the I/O path
  std::string io_path = "auto";
  AtomicFile::Existing existing = AtomicFile::Existing::kReplace;
  Progress progress;
};

struct WriteResult {
  Layout layout;
  std::uint64_t file_bytes;  // of both files, if split
};

// The lowest layout that can hold the tensors, of data version 5 the released one. reason, if given, receives what
// needs it, for people.
Layout lowest_layout(const TensorTable& tensors, bool encrypted, std::string* reason = nullptr);
// Whether a layout holds tensors that need the lowest one: a later one does, but long dimensions fit in two only.
constexpr bool can_hold(Layout layout, Layout lowest) {
  return has_entry_versions(lowest) ? has_entry_versions(layout) : layout >= lowest;
}

// The tensors of a file as a writer writes them: names in their one spelling, module indices from the headers.
// Throws TZR-NAM-009 for a name that no writer should write.
TensorTable writable_table(const Reader& reader);

// Writes the tensors in their order. source.open is called once for each tensor. The data of a split pair goes to
// split_data_file_name(file_name).
WriteResult write_file(const std::string& file_name, const TensorTable& tensors, const TensorSource& source,
                       const WriteOptions& options);

// The name of the file that write_file puts the data of a split pair into.
std::string split_data_file_name(const std::string& head_file_name);

// The same into a file that is open and empty, and if split another one for the data; the caller syncs them.
WriteResult write_tensors(File& file, const TensorTable& tensors, const TensorSource& source,
                          const WriteOptions& options, File* data_file = nullptr);

// Tensors that lie in memory, which the caller keeps alive. Entry i is the data of tensor i, empty for a meta tensor.
class MemorySource final : public TensorSource {
 public:
  explicit MemorySource(std::vector<ConstBuffer> data) : data_(std::move(data)) {}
  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;

 private:
  std::vector<ConstBuffer> data_;
};

}  // namespace tzmark
