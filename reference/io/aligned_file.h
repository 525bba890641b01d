// Files that may be open twice, for buffered and for direct I/O, and files that transfer in steps (aligned_io.h).
//
// Thread-safety: that of File. Errors: TZE-ENV rules; TZE-AVL-001 if the file system refuses direct I/O.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string_view>

#include "io/aligned_io.h"
#include "io/paths.h"

namespace tzmark {

// The descriptors of one file.
struct OpenedFile {
  Descriptor buffered;
  Descriptor direct;  // O_DIRECT; none without direct I/O
  Alignment alignment;

  int descriptor_of(AlignedStep::Route route) const {
    return route == AlignedStep::Route::kBuffered || direct.get() < 0 ? buffered.get() : direct.get();
  }
};

OpenedFile open_plainly(Opening&& opening);
// Throws TZE-AVL-001 if the file system does not support O_DIRECT.
OpenedFile open_directly(Opening&& opening);

// A file that tracks its size, which only its own calls change.
class SizedFile : public File {
 public:
  std::uint64_t size() const final { return size_.load(std::memory_order_relaxed); }
  // Allocates space, so that writes need not extend the file one by one; does nothing if the file system cannot.
  void reserve(std::uint64_t bytes) final;

  const OpenedFile& opened() const { return opened_; }
  // Called when bytes up to end have been written.
  void grow_to(std::uint64_t end);

 protected:
  explicit SizedFile(OpenedFile opened);
  // Both descriptors refer to the same file, so one call syncs all of it.
  void sync_all() final { sync_descriptor(opened_.buffered.get()); }

 private:
  const OpenedFile opened_;
  std::atomic<std::uint64_t> size_;
};

// A file that transfers in steps. Derived classes make the calls.
class AlignedFile : public SizedFile {
 public:
  std::string_view io_path() const final { return io_path_; }
  std::size_t transfer_align_bytes() const final { return opened().alignment.unit_bytes; }
  std::size_t memory_align_bytes() const final { return opened().alignment.memory_bytes; }
  // Measured on a disk with NVMe, reads of 128 MiB by the codec in transfers of 2 MiB, 1 MiB, 512 KiB and 256 KiB, with
  // a depth of 8 to 16: 72, 60, 60 and 67 ms by direct, 70, 60, 51 and 49 ms by uring-direct.
  std::size_t transfer_bytes_default() const final {
    constexpr std::size_t kDirectBytes = 512 << 10;
    return opened().direct.get() < 0 ? 0 : kDirectBytes;
  }

  // Returns whether the file ends before the first requested byte of a read, which a short transfer alone does not
  // prove.
  bool ends_before(const AlignedStep& step) const;

 protected:
  AlignedFile(std::string_view io_path, OpenedFile opened);
  // Makes one call. Returns the number of bytes, or a negative errno.
  virtual ssize_t move(Transfer::Kind kind, int descriptor, std::byte* memory, std::size_t bytes,
                       std::uint64_t offset) = 0;

  std::size_t read_some(std::uint64_t offset, MutableBuffer out) final;
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) final;

 private:
  ssize_t move_uninterrupted(Transfer::Kind kind, const AlignedStep& step, std::byte* memory);

  const std::string_view io_path_;
  BouncePool bounce_;
};

// Returns the error of a call that transferred nothing. error_number: a positive errno.
Error move_error(std::string_view io_path, Transfer::Kind kind, int error_number, std::uint64_t offset);

}  // namespace tzmark
