// Reading .tensors files.
//
// The constructor of a Reader checks the file header and the whole index: every offset and length lies inside the file,
// nothing overlaps, and names form a tree. A tensor header is read and compared with the index when its tensor is read;
// check_headers does it for all. Opening needs memory in proportion to the actual number of index entries.
//
// Thread-safety: const calls are thread-safe. Calls that read many tensors start threads.
// Ownership: a Reader owns its File. The streams that it opens must not outlive it.
// Errors: tzmark::Error with the rule and the byte offset. Data that was delivered before an error passed the requested
// checks, unless a call states otherwise.
// The file must not change while it is read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tzmark/buffer.h"
#include "tzmark/crypto.h"
#include "tzmark/format.h"
#include "tzmark/hashes.h"
#include "tzmark/io.h"
#include "tzmark/memory.h"
#include "tzmark/table.h"

namespace tzmark {

// Receives the number of bytes of the file that have just been processed. Called from any thread, once per piece.
using Progress = std::function<void(std::uint64_t bytes)>;

struct ReadOptions {
  std::optional<KeySource> key;
  KeyDerivationLimits key_derivation_limits;
  std::string io_path = "auto";
  std::string data_file_name;         // the detached data of the file; FORMAT.md, appendix A
  unsigned threads = 0;               // compute threads; 0 = one per core
  std::size_t piece_bytes = 2 << 20;  // maximal size of a transfer; from a server 8 MiB, unless it is set otherwise
  std::size_t part_bytes = 0;         // about the same for parts of large tensors; 0 = the I/O path's default
  unsigned queue_depth = 0;           // transfers in flight, summed over all threads; 0 = the I/O path's default
  Progress progress;                  // called by verify, scan, read and load
};

// Random access to the plaintext of one tensor. Thread-safe.
class TensorStream {
 public:
  virtual ~TensorStream() = default;
  // Fills out with the plaintext from offset on. REQUIRES: offset + out.size <= data_length.
  virtual void read(std::uint64_t offset, MutableBuffer out) = 0;
  // The whole plaintext, if it lies in host memory as long as the stream lives; a writer then does not copy it.
  virtual std::span<const std::byte> in_memory() const { return {}; }
  // The same in GPU memory.
  virtual ConstBuffer in_device_memory() const { return {}; }
  // The hashes that the source stores for the tensor, for a writer to check; null if it stores none. Valid as long as
  // the stream.
  virtual const ExpectedHashes* expected() const { return nullptr; }

 protected:
  // For implementations of read. Throws kUsage unless the range lies inside a tensor of that many bytes.
  static void check_range(std::uint64_t offset, std::size_t bytes, std::uint64_t tensor_bytes);
};

// Supplies the tensors of a writer. Thread-safe.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::unique_ptr<TensorStream> open(std::size_t tensor) const = 0;
  // Whether streams copy from a GPU; a writer then pins its buffers.
  virtual bool is_on_device() const { return false; }
  // The files that it reads, as they were when they were opened; the one that names the others comes first. A writer
  // replaces the first only if it is unchanged, and none of the others alone.
  virtual std::vector<FileVersion> files() const { return {}; }
};

class DeviceTensors;
struct DeviceReadOptions;

struct ScanOptions {
  Verification verify = Verification::kNone;
  bool plain_sha256 = false;  // compute the SHA-256 of the data alone
};

// What a scan reports about a tensor when it has read it. The views are valid during the call.
struct ScannedTensor {
  std::size_t index;
  const TensorHeader& header;
  std::span<const std::byte> header_bytes;
  std::optional<std::array<std::byte, 32>> plain_sha256;  // none for a meta tensor
};

// Owns the plaintext of all tensors of a file, in one allocation of host memory. Move-only.
class LoadedTensors {
 public:
  LoadedTensors(const TensorTable& tensors, HostMemory::Pages pages);

  std::size_t size() const { return ranges_.size(); }
  // Aligned to 64 bytes; empty for a meta tensor.
  std::span<std::byte> operator[](std::size_t tensor) const {
    return memory_.bytes().subspan(ranges_[tensor].offset, ranges_[tensor].length);
  }

 private:
  friend class Reader;
  struct Range {
    std::uint64_t offset, length;
  };
  HostMemory memory_;
  std::vector<Range> ranges_;
};

// Memory to read a tensor into.
struct ReadTarget {
  std::size_t tensor = 0;
  MutableBuffer out;
};

class Reader final : public TensorSource {
 public:
  explicit Reader(std::unique_ptr<File> file, ReadOptions options = {});
  // data_file: the detached data. Data offsets then refer to that file.
  Reader(std::unique_ptr<File> file, std::unique_ptr<File> data_file, ReadOptions options);
  // "-" first copies standard input to a temporary file. Throws TZE-ENV-007 if an in-place edit was interrupted.
  static Reader open(const std::string& file_name, ReadOptions options = {});
  // The same for a file that is open already, under this name.
  static Reader open(std::unique_ptr<File> file, const std::string& file_name, ReadOptions options = {});
  ~Reader() override;
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  // The name of the I/O path in use.
  std::string_view io_path() const;
  const FileHeader& header() const;
  Layout layout() const;
  const TensorTable& tensors() const;
  std::uint64_t file_bytes() const;  // including detached data
  // What the file with the data was when it was opened; none if it was not opened by name.
  const std::optional<FileVersion>& data_file_version() const;
  std::vector<FileVersion> files() const override;
  std::uint64_t index_begin() const;
  std::uint64_t index_length() const;
  std::uint64_t index_used() const;  // without the zeros after the last entry
  const Segments& segments() const;  // of v5-segments; zeros in other layouts

  // Finds a tensor by its stored name, or by its path.
  std::optional<std::size_t> find(std::string_view name) const;
  std::optional<std::size_t> find(const Path& path) const;

  // Reads every tensor header and compares it with the index. Calls visit, if given, for each in file order.
  using HeaderVisitor = std::function<void(std::size_t tensor, const TensorHeader&, std::span<const std::byte> header)>;
  void check_headers(const HeaderVisitor& visit = {}) const;

  // Verifies everything: headers, MACs, CRC32, SHA-256. Throws the first error in file order.
  void verify() const;

  // Reads all data once. Calls done, if given, once per tensor, in any order, one call at a time.
  void scan(const ScanOptions& options, const std::function<void(const ScannedTensor&)>& done = {}) const;

  // Reads the whole tensor into memory of data_length bytes. A meta tensor takes memory of its nominal size, which is
  // zeroed. If this throws, the content of out is undefined.
  void read(std::size_t tensor, MutableBuffer out, Verification verify = Verification::kAll) const;

  // The same for several tensors, of which those that follow each other in the file are read together. Nothing is
  // written if the memory of one does not fit.
  void read(std::span<const ReadTarget> targets, Verification verify = Verification::kAll) const;

  // Reads every tensor into memory that it allocates.
  LoadedTensors load(Verification verify = Verification::kAll,
                     HostMemory::Pages pages = HostMemory::Pages::kHuge) const;

  // Checks tensors that are in memory, and were not verified when they were read, against the hashes of the file, of
  // which it reads the headers alone; a program can use them meanwhile, but must not write to them. loaded: of every
  // tensor, in the order of tensors(); empty for meta tensors; all on the host, or on one GPU, from which what the host
  // hashes is copied back. Calls progress with what the host hashes. Throws the first error in file order, and kUsage
  // for other memory.
  void check_loaded(std::span<const ConstBuffer> loaded, Verification verify = Verification::kAll) const;

  // Like read and load, into GPU memory: see tzmark/device.h. If read_into_device throws, the content of out is
  // undefined. Throws kUsage unless out.kind == kDevice. The targets may be of several GPUs.
  void read_into_device(std::size_t tensor, MutableBuffer out, const DeviceReadOptions& options) const;
  void read_into_device(std::span<const ReadTarget> targets, const DeviceReadOptions& options) const;
  DeviceTensors load_into_device(const DeviceReadOptions& options) const;

  // Reads the tensor's header and compares it with the index. The stream checks MACs, but not hashes.
  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tzmark
