// Reading .tensors files.
//
// A Reader has checked the file header and the whole index when its constructor returns: every offset and length lies
// inside the file, nothing overlaps, names form a tree. Tensor headers are read and cross-checked when their
// tensor is; check_headers does it for all. Opening costs memory in proportion to the entries that are really there.
//
// Thread-safety: const calls may run at the same time. Calls that read many tensors start threads of their own.
// Ownership: a Reader owns its File. Streams that it opened must not outlive it.
// Errors: tzmark::Error with the rule and the byte offset. What a call has already handed out is right as far as the
// checks asked for go, except where a call says otherwise.
// The file must not be changed by others while it is read.
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
#include "tzmark/io.h"
#include "tzmark/memory.h"
#include "tzmark/table.h"

namespace tzmark {

// Told how many bytes of the file have just been dealt with. Called from any thread, for each piece.
using Progress = std::function<void(std::uint64_t bytes)>;

struct ReadOptions {
  std::optional<KeySource> key;
  KeyDerivationLimits key_derivation_limits;
  std::string io_path = "auto";
  std::string data_file_name;         // of a split pair, whose head is the file that is opened; FORMAT.md, appendix A
  unsigned threads = 0;               // that compute at a time; 0: one a core
  std::size_t piece_bytes = 2 << 20;  // of a transfer, at most
  unsigned queue_depth = 0;           // transfers in flight, over all threads; 0: what suits the I/O path
  Progress progress;                  // of verify, scan, read and load
};

// Which of the stored hashes are checked while data is read. MACs of encrypted tensors always are.
enum class Verification : std::uint8_t {
  kNone,
  kCrc32,  // a tensor without CRC32 fails
  kAll,    // CRC32 and SHA-256, whichever a tensor has; a tensor without any fails
};

// The data of one tensor as plaintext, in any order.
class TensorStream {
 public:
  virtual ~TensorStream() = default;
  // Fills out with the plaintext from offset on. REQUIRES: offset + out.size <= data_length. Thread-safe.
  virtual void read(std::uint64_t offset, MutableBuffer out) = 0;
  // The whole plaintext, if it lies in host memory for as long as the stream lives: then nobody has to copy it.
  virtual std::span<const std::byte> in_memory() const { return {}; }
  // The same in GPU memory.
  virtual ConstBuffer in_device_memory() const { return {}; }
  // What the source says that header and data hash to, if it says so; a writer that copies the tensor checks it.
  virtual const class ExpectedHashes* expected() const { return nullptr; }
};

// Where a writer gets its tensors from. Thread-safe.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::unique_ptr<TensorStream> open(std::size_t tensor) const = 0;
  // Whether streams copy from a GPU, which goes faster to memory that is pinned for it.
  virtual bool is_on_device() const { return false; }
};

class DeviceTensors;
struct DeviceReadOptions;

struct ScanOptions {
  Verification verify = Verification::kNone;
  bool plain_sha256 = false;  // SHA-256 of the data alone
};

// What a scan tells about a tensor when it is through with it. The views are valid during the call.
struct ScannedTensor {
  std::size_t index;
  const TensorHeader& header;
  std::span<const std::byte> header_bytes;
  std::optional<std::array<std::byte, 32>> plain_sha256;  // none for a meta tensor
};

// The plaintext of all tensors of a file, in one piece of memory that it owns. Moves and does not copy.
class LoadedTensors {
 public:
  LoadedTensors(const TensorTable& tensors, HostMemory::Pages pages);

  std::size_t size() const { return places_.size(); }
  // Aligned to 64 bytes; empty for a meta tensor.
  std::span<std::byte> operator[](std::size_t tensor) const {
    return memory_.bytes().subspan(places_[tensor].offset, places_[tensor].length);
  }

 private:
  struct Place {
    std::uint64_t offset, length;
  };
  HostMemory memory_;
  std::vector<Place> places_;
};

class Reader final : public TensorSource {
 public:
  explicit Reader(std::unique_ptr<File> file, ReadOptions options = {});
  // A split pair: the file with the headers, and the one with the data. Positions in the data count in the latter.
  Reader(std::unique_ptr<File> file, std::unique_ptr<File> data_file, ReadOptions options);
  // "-" reads standard input to its end first.
  static Reader open(const std::string& file_name, ReadOptions options = {});
  ~Reader() override;
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  // By which the file is read, as in the registry.
  std::string_view io_path() const;
  const FileHeader& header() const;
  Layout layout() const;
  const TensorTable& tensors() const;
  std::uint64_t file_bytes() const;  // of both files of a split pair
  std::uint64_t index_begin() const;
  std::uint64_t index_length() const;
  std::uint64_t index_used() const;  // without the zeros behind the last entry
  const Segments& segments() const;  // of v5-segments; else zeros

  // By stored name, or by path.
  std::optional<std::size_t> find(std::string_view name) const;
  std::optional<std::size_t> find(const Path& path) const;

  // Reads every tensor header and checks it against the index. visit, if given, is called for each in file order.
  using HeaderVisitor = std::function<void(std::size_t tensor, const TensorHeader&, std::span<const std::byte> header)>;
  void check_headers(const HeaderVisitor& visit = {}) const;

  // Everything: headers, MACs, CRC32, SHA-256. Throws the first error in file order.
  void verify() const;

  // Reads all data once. done, if given, is called once for each tensor, in any order, never twice at the same time.
  void scan(const ScanOptions& options, const std::function<void(const ScannedTensor&)>& done = {}) const;

  // The whole tensor into memory of data_length bytes, or of nominal size for a meta tensor, which gives zeros.
  // If it throws, out holds nothing that may be used.
  void read(std::size_t tensor, MutableBuffer out, Verification verify = Verification::kAll) const;

  // Every tensor into memory that is allocated for them.
  LoadedTensors load(Verification verify = Verification::kAll,
                     HostMemory::Pages pages = HostMemory::Pages::kHuge) const;

  // As read and load, into GPU memory: see tzmark/device.h. What a failed call leaves in memory of the caller may not
  // be used. REQUIRES: out.kind == kDevice.
  void read_into_device(std::size_t tensor, MutableBuffer out, const DeviceReadOptions& options) const;
  DeviceTensors load_into_device(const DeviceReadOptions& options) const;

  // Reads the tensor's header and checks it; MACs are checked as data is read, hashes are not.
  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;

  struct State;  // private to the codec

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tzmark
