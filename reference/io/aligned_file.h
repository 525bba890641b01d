// A file whose bytes move in steps: direct, or plainly through the page cache. What makes the calls is left open.
//
// Reads and writes may run from any threads. Errors: TZE-ENV rules; TZE-AVL-001 where direct I/O is refused.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <string_view>

#include "io/aligned_io.h"
#include "io/paths.h"

namespace tzmark {

// A file that is open once or twice.
struct OpenedFile {
  Descriptor buffered;
  Descriptor direct;  // O_DIRECT; none for files that are not moved directly
  Alignment alignment;

  int descriptor_of(Step::Route route) const {
    return route == Step::Route::kBuffered || direct.get() < 0 ? buffered.get() : direct.get();
  }
};

OpenedFile open_plainly(Opening&& opening);
// Throws TZE-AVL-001 if the file system does not take O_DIRECT.
OpenedFile open_directly(Opening&& opening);

class AlignedFile : public File {
 public:
  std::string_view io_path() const final { return io_path_; }
  std::uint64_t size() const final { return size_.load(std::memory_order_relaxed); }
  // Allocates, so that writes need not extend the file one after the other. Where the file system cannot, they do.
  void reserve(std::uint64_t bytes) final;
  std::size_t transfer_align_bytes() const final { return opened_.alignment.unit_bytes; }

  const OpenedFile& opened() const { return opened_; }
  // Called when bytes up to here are in the file.
  void grow_to(std::uint64_t end);
  // Whether the file ends before the first byte that a read was to bring. A call that moves less than it skips says
  // so nearly always, but need not.
  bool ends_before(const Step& step) const;

 protected:
  AlignedFile(std::string_view io_path, OpenedFile opened);
  // One call. Returns how many bytes moved, or the errno, negative.
  virtual ssize_t move(Transfer::Kind kind, int descriptor, std::byte* memory, std::size_t bytes,
                       std::uint64_t offset) = 0;

  std::size_t read_some(std::uint64_t offset, MutableBuffer out) final;
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) final;
  void sync_all() final;

 private:
  ssize_t move_uninterrupted(Transfer::Kind kind, const Step& step, std::byte* memory);

  const std::string_view io_path_;
  const OpenedFile opened_;
  std::atomic<std::uint64_t> size_;
  BouncePool bounce_;
};

// The error of a call that moved nothing. error_number: the errno, positive.
Error move_error(std::string_view io_path, Transfer::Kind kind, int error_number, std::uint64_t offset);

}  // namespace tzmark
