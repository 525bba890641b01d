// The mmap path: copies from and to a mapping of the file. All threads share one mapping.
//
// Touching a page that cannot be read raises a signal (SIGBUS). So madvise(MADV_POPULATE_READ or MADV_POPULATE_WRITE)
// populates pages before they are touched, and reports as an error what would be the signal: a truncated file, a device
// that fails to read, a full file system. Kernels without these calls do not support this path.
// Between that call and the copy, which is at most kPieceBytes long, another process may truncate the file, or the
// kernel may evict a page and fail to read it again. Programs that call catch_bus_errors get an error then, as from any
// other path; in others that signal ends the process, since a library must not install signal handlers by itself.
//
// Writing allocates space first, with fallocate, so that a full disk is an error of the call that meets it. On file
// systems that cannot preallocate, the file only grows (ftruncate). Space is then allocated when a page is first
// written, so that the populating call reports a full disk or, if the file system delays allocation, the sync does.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "io/mapping_copy.h"
#include "io/paths.h"

namespace tzmark {
namespace {

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

// The unit of populating and copying: large enough for large device requests, small enough to stay in memory until it
// is copied.
constexpr std::size_t kPieceBytes = 2 << 20;
// A growing file is mapped well beyond its end; the pages there become valid as the file reaches them.
constexpr std::uint64_t kGrowingBytesMin = 64 << 20;
// How often a page may be gone again that was just populated, before the read fails.
constexpr int kFaultsMax = 16;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

class Mapping {
 public:
  Mapping(int fd, int protection, std::size_t bytes) : bytes_(bytes) {
    void* const memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
      if (errno == ENODEV) throw Error(ErrorCode::kUnavailable, "the file system cannot map files into memory");
      throw_errno(errno == ENOMEM ? ErrorCode::kResource : ErrorCode::kOpenFailed, "mmap");
    }
    memory_ = static_cast<std::byte*>(memory);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(memory_, bytes_); }

  std::byte* memory() const { return memory_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_;
};

// Populates the pages of a range of a mapping. Returns 0 or the errno.
int populate(std::byte* memory, std::size_t bytes, int advice) {
  const std::size_t skip = reinterpret_cast<std::uintptr_t>(memory) % page_bytes();
  const int result = uninterrupted(EAGAIN, [&] { return ::madvise(memory - skip, bytes + skip, advice); });
  return result == 0 ? 0 : errno;
}

class MappedFile final : public File {
 public:
  explicit MappedFile(Opening&& opening)
      : descriptor_(std::move(opening.descriptor)), writable_(opening.mode != OpenMode::kRead) {
    struct stat status {};
    if (::fstat(descriptor_.get(), &status) != 0) throw_errno(ErrorCode::kOpenFailed, "fstat");
    const std::uint64_t size = descriptor_size(descriptor_.get());
    // fstat does not know the size of a block device, which is constant.
    if (!S_ISREG(status.st_mode)) fixed_size_ = size;
    if (size != 0) at(0, static_cast<std::size_t>(size));
  }

  std::string_view io_path() const override { return "mmap"; }
  std::uint64_t size() const override {
    if (fixed_size_ != 0) return fixed_size_;
    struct stat status {};
    if (::fstat(descriptor_.get(), &status) != 0) throw_errno(ErrorCode::kOpenFailed, "fstat");
    return static_cast<std::uint64_t>(status.st_size);
  }

  void reserve(std::uint64_t bytes) override {
    const std::lock_guard lock(room_mutex_);
    reserve_room(descriptor_.get(), 0, bytes);
    room_end_.store(size(), std::memory_order_release);
  }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    require_host_memory(out, io_path());
    for (int faults = 0;;) {
      // The size must be current: after a truncation, the rest of the last page reads as zeros.
      const std::uint64_t end = size();
      if (offset >= end || out.size == 0) return 0;
      const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>({out.size, end - offset, kPieceBytes}));
      std::byte* const from = at(offset, bytes);
      if (const int error = populate(from, bytes, MADV_POPULATE_READ)) {
        if (size() < offset + bytes) continue;
        fail(ErrorCode::kReadFailed, error, offset);
      }
      if (const auto fault = copy_from_mapping(out.data, from, bytes)) {
        if (++faults == kFaultsMax) fail(ErrorCode::kReadFailed, EFAULT, offset + *fault);
        continue;
      }
      // What was truncated during the copy may have been copied as zeros.
      if (size() < offset + bytes) continue;
      return bytes;
    }
  }

  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    require_host_memory(in, io_path());
    if (!writable_) fail(ErrorCode::kWriteFailed, EBADF, offset);
    make_room(offset, offset + in.size);
    const std::size_t bytes = std::min(in.size, kPieceBytes);
    std::byte* const to = at(offset, bytes);
    if (const int error = populate(to, bytes, MADV_POPULATE_WRITE)) fail(ErrorCode::kWriteFailed, error, offset);
    if (const auto fault = copy_to_mapping(to, in.data, bytes)) fail(ErrorCode::kWriteFailed, EFAULT, offset + *fault);
    return bytes;
  }

  // fsync includes the pages that were written through a mapping.
  void sync_all() override { sync_descriptor(descriptor_.get()); }

 private:
  [[noreturn]] void fail(ErrorCode code, int error, std::uint64_t offset) const {
    if (error == EFAULT) {
      const bool reads = code == ErrorCode::kReadFailed;
      throw Error(code,
                  reads ? "mmap: the device or file system failed to read a page of the file"
                        : "mmap: no space for a page, or it cannot be read before it is modified",
                  offset);
    }
    errno = error;
    throw_errno(code, "mmap", offset);
  }

  // The address of a range. Mappings that became too small stay, since other threads may be using them.
  std::byte* at(std::uint64_t offset, std::size_t bytes) {
    const std::uint64_t end = offset + bytes;
    const Mapping* mapping = newest_.load(std::memory_order_acquire);
    if (mapping == nullptr || mapping->bytes() < end) mapping = &map(end);
    return mapping->memory() + offset;
  }

  const Mapping& map(std::uint64_t end) {
    const std::lock_guard lock(mappings_mutex_);
    if (!mappings_.empty() && mappings_.back()->bytes() >= end) return *mappings_.back();
    // The mapping of a read-only file covers all of it at first. A growing file is mapped twice as far each time.
    const bool grows = writable_ || !mappings_.empty();
    const std::uint64_t bytes = grows ? std::max(end * 2, kGrowingBytesMin) : end;
    const int protection = writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
    mappings_.push_back(std::make_unique<Mapping>(descriptor_.get(), protection, bytes));
    const Mapping& mapping = *mappings_.back();
    if (!writable_) ::madvise(mapping.memory(), mapping.bytes(), MADV_SEQUENTIAL);
    newest_.store(&mapping, std::memory_order_release);
    return mapping;
  }

  // Does not rely on the size alone: the kernel reports a new size before it zeroes the rest of the old last page, and
  // would zero what another thread has copied there meanwhile.
  void make_room(std::uint64_t offset, std::uint64_t end) {
    if (room_end_.load(std::memory_order_acquire) >= end && size() >= end) return;
    const std::lock_guard lock(room_mutex_);
    const std::uint64_t there = size();
    if (there < end) extend(std::max(there, offset), end);
    room_end_.store(std::max(there, end), std::memory_order_release);
  }

  void extend(std::uint64_t offset, std::uint64_t end) {
    if (reserve_room(descriptor_.get(), offset, end - offset)) return;
    const int result = uninterrupted([&] { return ::ftruncate(descriptor_.get(), static_cast<off_t>(end)); });
    if (result != 0) throw_errno(ErrorCode::kWriteFailed, "ftruncate", offset);
  }

  Descriptor descriptor_;
  const bool writable_;
  std::uint64_t fixed_size_ = 0;
  std::mutex room_mutex_;                    // serializes growing, so that the size never decreases
  std::atomic<std::uint64_t> room_end_ = 0;  // how far the file has been extended
  std::mutex mappings_mutex_;
  std::vector<std::unique_ptr<Mapping>> mappings_;
  std::atomic<const Mapping*> newest_ = nullptr;
};

std::string why_mmap_is_unavailable() {
  void* const memory = ::mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return "the system cannot map memory";
  const int error = populate(static_cast<std::byte*>(memory), page_bytes(), MADV_POPULATE_READ);
  ::munmap(memory, page_bytes());
  if (error == 0) return {};
  return "the kernel lacks MADV_POPULATE_READ (Linux 5.14), without which an I/O error is a signal (SIGBUS)";
}

}  // namespace

PathOfDescriptor mmap_path() {
  // It does not start writeback: writes would take longer, because the kernel write-protects each page for it.
  return {.name = "mmap",
          .summary = "copies from and to a mapping of the file",
          .traits = {.maps_file = true},
          .why_unavailable = why_mmap_is_unavailable,
          .open = [](Opening&& opening) -> std::unique_ptr<File> {
            return std::make_unique<MappedFile>(std::move(opening));
          }};
}

}  // namespace tzmark
