// Preloaded into an adapter by the suite: reads of files below a folder give fewer bytes than were asked for, as they
// may at any time.
//
// TZMARK_SHORT_READS_UNDER=DIR   the folder, without links in its name
// TZMARK_SHORT_READS_SEED=N      seed of the sizes, with the position in the file
// TZMARK_SHORT_READS_COUNT=F     16 bytes, which count the processes that loaded this, and the reads that came by
//
// It reaches what a dynamically linked program asks of the C library in read, pread, readv and preadv. It does not
// reach static programs, runtimes with system calls of their own, io_uring, mapped files, nor stdio, which calls read
// inside of the C library and reads on by itself. Uses nothing of the C++ library, which an adapter may have in another
// version.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runner/odd_sizes.h"

namespace {

using tzmark::conformance::odd_piece_bytes;

constexpr std::size_t kNameMaxBytes = 4096;
constexpr std::size_t kCountBytes = 2 * sizeof(std::uint64_t);

char folder[kNameMaxBytes];
std::size_t folder_bytes = 0;
std::uint64_t seed = 0;
std::uint64_t* counts = nullptr;

__attribute__((constructor)) void load() {
  const char* const under = std::getenv("TZMARK_SHORT_READS_UNDER");
  if (under == nullptr || std::strlen(under) >= sizeof folder) return;
  std::memcpy(folder, under, std::strlen(under));
  folder_bytes = std::strlen(under);
  if (const char* const text = std::getenv("TZMARK_SHORT_READS_SEED")) seed = std::strtoull(text, nullptr, 10);
  const char* const count = std::getenv("TZMARK_SHORT_READS_COUNT");
  const int fd = count == nullptr ? -1 : ::open(count, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const mapped = ::mmap(nullptr, kCountBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (mapped == MAP_FAILED) return;
  counts = static_cast<std::uint64_t*>(mapped);
  __atomic_add_fetch(&counts[0], 1, __ATOMIC_RELAXED);
}

// Whether the descriptor is of a regular file below the folder.
bool is_below(int fd, struct stat& status) {
  if (folder_bytes == 0 || ::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  char link[32];
  char name[kNameMaxBytes];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t bytes = ::readlink(link, name, sizeof name);
  return bytes > static_cast<ssize_t>(folder_bytes) && std::memcmp(name, folder, folder_bytes) == 0 &&
         name[folder_bytes] == '/';
}

// How many of the bytes that were asked for there are to be. A negative offset is the descriptor's own.
std::size_t shortened(int fd, std::size_t bytes, off64_t offset) {
  struct stat status {};
  if (bytes == 0 || !is_below(fd, status)) return bytes;
  if (counts != nullptr) __atomic_add_fetch(&counts[1], 1, __ATOMIC_RELAXED);
  if (offset < 0) offset = ::lseek64(fd, 0, SEEK_CUR);
  const std::uint64_t piece =
      odd_piece_bytes(seed, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(status.st_size));
  return piece < bytes ? static_cast<std::size_t>(piece) : bytes;
}

// What the program would have called without this library.
template <typename Function>
Function* original(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// The first buffer with room, which a short read may fill alone; null if there is none.
const iovec* first_room(const iovec* vectors, int count) {
  for (int i = 0; i < count; ++i) {
    if (vectors[i].iov_len > 0) return &vectors[i];
  }
  return nullptr;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t read(int fd, void* out, size_t bytes) { return original(&::read, "read")(fd, out, shortened(fd, bytes, -1)); }

ssize_t pread(int fd, void* out, size_t bytes, off_t offset) {
  return original(&::pread, "pread")(fd, out, shortened(fd, bytes, offset), offset);
}

ssize_t pread64(int fd, void* out, size_t bytes, off64_t offset) {
  return original(&::pread64, "pread64")(fd, out, shortened(fd, bytes, offset), offset);
}

// What the compiler makes of read and pread where it knows the size of the buffer.
ssize_t __read_chk(int fd, void* out, size_t bytes, size_t room_bytes) {
  if (bytes > room_bytes) std::abort();
  return read(fd, out, bytes);
}

ssize_t __pread_chk(int fd, void* out, size_t bytes, off_t offset, size_t room_bytes) {
  if (bytes > room_bytes) std::abort();
  return pread(fd, out, bytes, offset);
}

ssize_t __pread64_chk(int fd, void* out, size_t bytes, off64_t offset, size_t room_bytes) {
  if (bytes > room_bytes) std::abort();
  return pread64(fd, out, bytes, offset);
}

ssize_t readv(int fd, const iovec* vectors, int count) {
  struct stat status {};
  const iovec* const room = first_room(vectors, count);
  if (room == nullptr || !is_below(fd, status)) return original(&::readv, "readv")(fd, vectors, count);
  return read(fd, room->iov_base, room->iov_len);
}

ssize_t preadv(int fd, const iovec* vectors, int count, off_t offset) {
  struct stat status {};
  const iovec* const room = first_room(vectors, count);
  if (room == nullptr || !is_below(fd, status)) return original(&::preadv, "preadv")(fd, vectors, count, offset);
  return pread(fd, room->iov_base, room->iov_len, offset);
}

ssize_t preadv64(int fd, const iovec* vectors, int count, off64_t offset) {
  struct stat status {};
  const iovec* const room = first_room(vectors, count);
  if (room == nullptr || !is_below(fd, status)) return original(&::preadv64, "preadv64")(fd, vectors, count, offset);
  return pread64(fd, room->iov_base, room->iov_len, offset);
}

ssize_t preadv2(int fd, const iovec* vectors, int count, off_t offset, int flags) {
  struct stat status {};
  const iovec* const room = first_room(vectors, count);
  if (room == nullptr || !is_below(fd, status)) {
    return original(&::preadv2, "preadv2")(fd, vectors, count, offset, flags);
  }
  return offset == -1 ? read(fd, room->iov_base, room->iov_len) : pread(fd, room->iov_base, room->iov_len, offset);
}

ssize_t preadv64v2(int fd, const iovec* vectors, int count, off64_t offset, int flags) {
  return preadv2(fd, vectors, count, offset, flags);
}
}
#pragma GCC visibility pop
