// Preloaded into an adapter by the suite: reads of one file give fewer bytes than were asked for, as they may at any
// time.
//
// TZMARK_SHORT_READS_SEED=N      seed of the sizes, with the position in the file
// TZMARK_SHORT_READS_FILE=FILE   the file, or
// TZMARK_SHORT_READS_COUNT=F     a SharedCounts, which names the file of each question
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
#include <cstdlib>

#include "runner/odd_sizes.h"
#include "runner/shared_counts.h"

namespace {

using tzmark::conformance::odd_piece_bytes;

using tzmark::conformance::SharedCounts;

std::uint64_t seed = 0;
SharedCounts of_named_file;
// Null: no file is read short.
SharedCounts* shared = nullptr;

void share_counts(const char* name) {
  const int fd = ::open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const mapped = ::mmap(nullptr, sizeof(SharedCounts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (mapped != MAP_FAILED) shared = static_cast<SharedCounts*>(mapped);
}

__attribute__((constructor)) void load() {
  if (const char* const text = std::getenv("TZMARK_SHORT_READS_SEED")) seed = std::strtoull(text, nullptr, 10);
  struct stat status {};
  const char* const file = std::getenv("TZMARK_SHORT_READS_FILE");
  if (file != nullptr && ::stat(file, &status) == 0) {
    of_named_file.device = status.st_dev;
    of_named_file.inode = status.st_ino;
    shared = &of_named_file;
  }
  if (const char* const count = std::getenv("TZMARK_SHORT_READS_COUNT")) share_counts(count);
  if (shared != nullptr) __atomic_add_fetch(&shared->loads, 1, __ATOMIC_RELAXED);
}

// Whether the descriptor is of the file, under whatever name it was opened.
bool is_the_file(int fd, struct stat& status) {
  return shared != nullptr && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_dev == __atomic_load_n(&shared->device, __ATOMIC_RELAXED) &&
         status.st_ino == __atomic_load_n(&shared->inode, __ATOMIC_RELAXED);
}

// How many of the bytes that were asked for there are to be. A negative offset is the descriptor's own.
std::size_t shortened(int fd, std::size_t bytes, off64_t offset) {
  struct stat status {};
  if (bytes == 0 || !is_the_file(fd, status)) return bytes;
  __atomic_add_fetch(&shared->reads, 1, __ATOMIC_RELAXED);
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
  if (room == nullptr || !is_the_file(fd, status)) return original(&::readv, "readv")(fd, vectors, count);
  return read(fd, room->iov_base, room->iov_len);
}

ssize_t preadv(int fd, const iovec* vectors, int count, off_t offset) {
  struct stat status {};
  const iovec* const room = first_room(vectors, count);
  if (room == nullptr || !is_the_file(fd, status)) return original(&::preadv, "preadv")(fd, vectors, count, offset);
  return pread(fd, room->iov_base, room->iov_len, offset);
}

ssize_t preadv64(int fd, const iovec* vectors, int count, off64_t offset) {
  struct stat status {};
  const iovec* const room = first_room(vectors, count);
  if (room == nullptr || !is_the_file(fd, status)) return original(&::preadv64, "preadv64")(fd, vectors, count, offset);
  return pread64(fd, room->iov_base, room->iov_len, offset);
}

ssize_t preadv2(int fd, const iovec* vectors, int count, off_t offset, int flags) {
  struct stat status {};
  const iovec* const room = first_room(vectors, count);
  if (room == nullptr || !is_the_file(fd, status)) {
    return original(&::preadv2, "preadv2")(fd, vectors, count, offset, flags);
  }
  return offset == -1 ? read(fd, room->iov_base, room->iov_len) : pread(fd, room->iov_base, room->iov_len, offset);
}

ssize_t preadv64v2(int fd, const iovec* vectors, int count, off64_t offset, int flags) {
  return preadv2(fd, vectors, count, offset, flags);
}
}
#pragma GCC visibility pop
