// An I/O path that only a test has, and the registry with its row: what a new path takes. It is pread and pwrite with
// one vector.
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <span>

#include "io/paths.h"

namespace tzmark {
namespace {

class PreadvFile final : public File {
 public:
  explicit PreadvFile(Descriptor descriptor)
      : descriptor_(std::move(descriptor)), size_(descriptor_size(descriptor_.get())) {}

  std::string_view io_path() const override { return "preadv"; }
  std::uint64_t size() const override { return size_; }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    require_host_memory(out, io_path());
    const iovec all{out.data, out.size};
    const ssize_t moved =
        uninterrupted([&] { return ::preadv(descriptor_.get(), &all, 1, static_cast<off_t>(offset)); });
    if (moved < 0) throw_errno(ErrorCode::kReadFailed, "preadv", offset);
    return static_cast<std::size_t>(moved);
  }

  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    require_host_memory(in, io_path());
    const iovec all{const_cast<std::byte*>(in.data), in.size};
    const ssize_t moved =
        uninterrupted([&] { return ::pwritev(descriptor_.get(), &all, 1, static_cast<off_t>(offset)); });
    if (moved < 0) throw_errno(ErrorCode::kWriteFailed, "pwritev", offset);
    const std::uint64_t end = offset + static_cast<std::uint64_t>(moved);
    std::uint64_t size = size_;
    while (size < end && !size_.compare_exchange_weak(size, end)) {
    }
    return static_cast<std::size_t>(moved);
  }

  void sync_all() override { sync_descriptor(descriptor_.get()); }

 private:
  const Descriptor descriptor_;
  std::atomic<std::uint64_t> size_;
};

PathOfDescriptor preadv_path() {
  return {.name = "preadv",
          .summary = "preadv and pwritev of one vector",
          .open = [](Opening&& opening) -> std::unique_ptr<File> {
            return std::make_unique<PreadvFile>(std::move(opening.descriptor));
          }};
}

}  // namespace

PathOfDescriptor pwrite_path(), buffered_path();

// In place of that of reference/io.
std::span<const PathOfDescriptor> paths_of_descriptors() {
  static const std::array paths = {pwrite_path(), buffered_path(), preadv_path()};
  return paths;
}

}  // namespace tzmark
