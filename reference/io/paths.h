// What each I/O path contributes to the registry, and the system calls that several of them share.
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

// What a read that finds the end of the file throws. missing_bytes: what it still wanted there.
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

// A file that is open, for a path to move its bytes. The path takes the descriptor.
struct Opening {
  Descriptor descriptor;
  const std::string& file_name;
  OpenMode mode;
};

// What a path puts into the registry: as IoPath says, except that its file is open already.
struct PathOfDescriptor {
  std::string_view name, summary, variant_of;
  std::function<std::string()> why_unavailable;
  std::function<std::unique_ptr<File>(Opening&&)> open;
};

PathOfDescriptor pwrite_path();
PathOfDescriptor pwrite_dontcache_path();
PathOfDescriptor buffered_path();
PathOfDescriptor direct_path();
PathOfDescriptor mmap_path();
PathOfDescriptor uring_path();
PathOfDescriptor uring_direct_path();
PathOfDescriptor uring_sqpoll_path();
PathOfDescriptor gpudirect_path();

// Each path says in its own file what it is.
std::span<const PathOfDescriptor> paths_of_descriptors();
// Returns the path of this name or, for "auto", the first that this machine has. Throws TZE-AVL-001 for one that it
// lacks.
const PathOfDescriptor& usable_path(std::string_view io_path);

// A File of the descriptor's file, over a path of the registry or "auto". Nothing is created or removed; file_name
// serves paths that need a second descriptor, as open_again says.
std::unique_ptr<File> open_file(Descriptor descriptor, const std::string& file_name, OpenMode mode,
                                std::string_view io_path = "auto");

// What the descriptor is, "a pipe"; nullptr for regular files and block devices, which can be read at any offset.
const char* what_else(int fd);
// Takes O_NONBLOCK back, with which files are opened so that no pipe can hold anyone up: io_uring takes it for a wish
// not to wait for the disk, and refuses the transfer instead.
void let_wait(int fd);
// Opens a file that exists. Refuses everything else with TZE-ENV-001, and never waits for another process.
Descriptor open_descriptor(const std::string& file_name, OpenMode mode);
// Opens the file of a descriptor once more, with its own position and flags. The name serves where there is no /proc,
// and must lead to the same file. Returns an empty descriptor, and leaves errno set, if it cannot be opened.
Descriptor open_again(int fd, const std::string& file_name, int flags);
bool is_same_file(int fd, int other_fd);
std::uint64_t descriptor_size(int fd);
void sync_descriptor(int fd);
// Returns false and leaves errno set instead.
bool try_sync_descriptor(int fd);

// Gives what is written to the page cache to the device at once, for a file that will be synced. Thread-safe, except
// for expect_sync, which comes before the first write.
class Writeback {
 public:
  void expect_sync() { is_expected_ = true; }
  // After a write: begins to write its whole pages to the device, unless they are few.
  void begin(int fd, std::uint64_t offset, std::size_t bytes);
  // Throws TZE-ENV-004 if one of them failed: a file system may drop the pages that it finds no place for, and then an
  // fsync tells of nothing.
  void require_success() const;

 private:
  bool is_expected_ = false;
  std::atomic<int> error_number_ = 0;
};

// Allocates a range, and grows the file to its end. Returns false, having changed nothing, if this file system cannot.
bool reserve_room(int fd, std::uint64_t offset, std::uint64_t bytes);

// A path that takes pointers can only reach memory that the CPU can.
void require_host_memory(ConstBuffer buffer, std::string_view io_path);

}  // namespace tzmark
