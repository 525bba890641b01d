// The pwrite path: pread and pwrite on a descriptor, through the page cache. Threads need no coordination.
// Its variant pwrite-dontcache asks the kernel to drop pages once they are read or written back (RWF_DONTCACHE).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "io/paths.h"

namespace tzmark {
namespace {

// From Linux 6.14 on; the C library's headers may be older than the kernel.
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x00000080
#endif

class PwriteFile : public File {
 public:
  explicit PwriteFile(Descriptor descriptor)
      : descriptor_(std::move(descriptor)), size_(descriptor_size(descriptor_.get())) {}

  std::string_view io_path() const override { return "pwrite"; }
  std::uint64_t size() const override { return size_.load(std::memory_order_relaxed); }
  // The kernel locks a file for each write through the page cache.
  bool writes_take_turns() const override { return true; }
  void expect_sync() override { writeback_.expect_sync(); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    require_host_memory(out, io_path());
    const ssize_t moved =
        uninterrupted(EAGAIN, [&] { return read_once(descriptor_.get(), out, static_cast<off_t>(offset)); });
    if (moved < 0) throw_errno(ErrorCode::kReadFailed, "pread", offset);
    return bytes_still_there(descriptor_.get(), offset, static_cast<std::size_t>(moved));
  }

  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    require_host_memory(in, io_path());
    const ssize_t moved =
        uninterrupted(EAGAIN, [&] { return write_once(descriptor_.get(), in, static_cast<off_t>(offset)); });
    if (moved < 0) throw_errno(ErrorCode::kWriteFailed, "pwrite", offset);
    const std::uint64_t end = offset + static_cast<std::uint64_t>(moved);
    std::uint64_t size = size_.load(std::memory_order_relaxed);
    while (size < end && !size_.compare_exchange_weak(size, end, std::memory_order_relaxed)) {
    }
    writeback_.begin(descriptor_.get(), offset, static_cast<std::size_t>(moved));
    return static_cast<std::size_t>(moved);
  }

  void sync_all() override {
    sync_descriptor(descriptor_.get());
    writeback_.require_success();
  }

  virtual ssize_t read_once(int fd, MutableBuffer out, off_t offset) { return ::pread(fd, out.data, out.size, offset); }
  virtual ssize_t write_once(int fd, ConstBuffer in, off_t offset) { return ::pwrite(fd, in.data, in.size, offset); }

 private:
  Descriptor descriptor_;
  std::atomic<std::uint64_t> size_;
  Writeback writeback_;
};

class DontcacheFile final : public PwriteFile {
 public:
  // REQUIRES: is_taken_by().
  explicit DontcacheFile(Descriptor descriptor) : PwriteFile(std::move(descriptor)) {}

  std::string_view io_path() const override { return "pwrite-dontcache"; }
  void expect_sync() override {}  // the kernel starts writeback itself

  // Whether the file system supports the flag, found by reading the first byte.
  static bool is_taken_by(int fd) {
    char byte = 0;
    const iovec one{&byte, 1};
    return ::preadv2(fd, &one, 1, 0, RWF_DONTCACHE) >= 0 || errno != EOPNOTSUPP;
  }

 protected:
  ssize_t read_once(int fd, MutableBuffer out, off_t offset) override {
    const iovec all{out.data, out.size};
    return ::preadv2(fd, &all, 1, offset, RWF_DONTCACHE);
  }
  ssize_t write_once(int fd, ConstBuffer in, off_t offset) override {
    // A write leaves the memory as it is; the structure serves reads too.
    const iovec all{const_cast<std::byte*>(in.data), in.size};
    return ::pwritev2(fd, &all, 1, offset, RWF_DONTCACHE);
  }
};

// By the kernel's release: the error for an unknown flag is also that of a file system without it, which is found when
// a file is opened.
std::string why_dontcache_is_unavailable() {
  utsname system{};
  unsigned major = 0, minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%u.%u", &major, &minor) != 2) return {};
  if (major > 6 || (major == 6 && minor >= 14)) return {};
  return fmt::format("RWF_DONTCACHE came with Linux 6.14, and this is {}", system.release);
}

std::unique_ptr<File> open_dontcache(Opening&& opening) {
  if (!DontcacheFile::is_taken_by(opening.descriptor.get())) {
    throw Error(ErrorCode::kUnavailable, "the file system does not take RWF_DONTCACHE");
  }
  return std::make_unique<DontcacheFile>(std::move(opening.descriptor));
}

}  // namespace

PathOfDescriptor pwrite_path() {
  return {.name = "pwrite",
          .summary = "pread and pwrite through the page cache",
          .traits = {.starts_writeback = true},
          .open = [](Opening&& opening) -> std::unique_ptr<File> {
            return std::make_unique<PwriteFile>(std::move(opening.descriptor));
          }};
}

PathOfDescriptor pwrite_dontcache_path() {
  return {.name = "pwrite-dontcache",
          .summary = "preadv2 and pwritev2 that leave nothing in the page cache (RWF_DONTCACHE)",
          .variant_of = "pwrite",
          .traits = {.drops_pages = true},
          .why_unavailable = why_dontcache_is_unavailable,
          .open = open_dontcache};
}

}  // namespace tzmark
