// The rows of the registry of I/O paths, and the system calls that several paths share.
#pragma once

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tzmark/descriptor.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {

// Returns the text of an error number. That of EFBIG, a file that is too large, names the limit that was met.
std::string error_text(int error_number);

// Throws TZE-ENV-00x with the text of errno.
[[noreturn]] void throw_errno(ErrorCode code, const std::string& what, std::optional<std::uint64_t> offset = {});

// Returns the error of a read beyond the end of the file. missing_bytes: how much of the read lies beyond it.
Error early_end(std::uint64_t missing_bytes, std::uint64_t offset);

// Runs the action; the message of an Error that it throws begins with the name.
template <typename Action>
auto with_context(const std::string& name, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw Error(error.code(), name + ": " + error.message(), error.offset());
  }
}

// Repeats a system call that a signal interrupts, or that fails with the other error, and returns its last result.
template <typename Call>
auto uninterrupted(int other_error, Call&& call) {
  for (;;) {
    errno = 0;
    const auto result = call();
    if (result != -1 || (errno != EINTR && errno != other_error)) return result;
  }
}
template <typename Call>
auto uninterrupted(Call&& call) {
  return uninterrupted(EINTR, call);
}

// Returns another descriptor of the same open file.
Descriptor duplicate(const Descriptor& descriptor);

// An open file that a path takes over, with its descriptor.
struct Opening {
  Descriptor descriptor;
  const std::string& file_name;
  OpenMode mode;
};

// A row of the registry: an IoPath, but open takes an open descriptor.
struct PathOfDescriptor {
  std::string_view name, summary, variant_of = {};
  PathTraits traits = {};
  std::function<std::string()> why_unavailable = [] { return std::string(); };
  std::function<std::unique_ptr<File>(Opening&&)> open;
};

// The registry, in the order of preference for "auto".
std::span<const PathOfDescriptor> paths_of_descriptors();
// Returns the path of this name or, for "auto", the first available one. Throws TZE-AVL-001 if it is not available.
const PathOfDescriptor& usable_path(std::string_view io_path);

// Opens a descriptor's file over a path of the registry or "auto". Creates and removes nothing. Paths that need a
// second descriptor open file_name again: see open_again.
std::unique_ptr<File> open_file(Descriptor descriptor, const std::string& file_name, OpenMode mode,
                                std::string_view io_path = "auto");

// Returns the type of a file without random access ("a pipe"); nullptr for regular files and block devices.
const char* what_else(int fd);
// Clears O_NONBLOCK, with which files are opened so that opening a pipe does not block: with the flag, io_uring fails
// transfers that would wait for the disk.
void let_wait(int fd);
// Opens an existing regular file or block device without blocking. Throws TZE-ENV-001 for anything else.
Descriptor open_descriptor(const std::string& file_name, OpenMode mode);
// Opens a descriptor's file again, with a position and flags of its own: through /proc or, without it, by file_name,
// which must lead to the same file. On failure, returns an empty descriptor and leaves errno set.
Descriptor open_again(int fd, const std::string& file_name, int flags);
bool is_same_file(int fd, int other_fd);
// Returns how many bytes of a range still lie in the file. Call it after a read: while another process truncates the
// file, a kernel may zero the rest of its last page under the copy, but it reports the new size before.
std::size_t bytes_still_there(int fd, std::uint64_t offset, std::size_t bytes);
std::uint64_t descriptor_size(int fd);
void sync_descriptor(int fd);
// Returns false and leaves errno set instead.
bool try_sync_descriptor(int fd);

// Starts writeback of large writes at once, for a file that will be synced. Thread-safe, except for expect_sync, which
// must come before the first write.
class Writeback {
 public:
  void expect_sync() { is_expected_ = true; }
  // Call after a write: starts writeback of its whole pages if it is large (kWritebackBytesMin).
  void begin(int fd, std::uint64_t offset, std::size_t bytes);
  // Throws TZE-ENV-004 if a writeback failed: a file system may drop pages for which it has no space, and a later fsync
  // then reports success.
  void require_success() const;

 private:
  bool is_expected_ = false;
  std::atomic<int> error_number_ = 0;
};

// Allocates a range, and grows the file to its end. Returns false and changes nothing if the file system cannot.
bool reserve_room(int fd, std::uint64_t offset, std::uint64_t bytes);

// Throws unless the CPU can access the buffer.
void require_host_memory(ConstBuffer buffer, std::string_view io_path);

}  // namespace tzmark
