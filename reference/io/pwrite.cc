// The pwrite path: pread and pwrite on a descriptor, through the page cache. Threads need no coordination.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/paths.h"

namespace tzmark {
namespace {

class PwriteFile final : public File {
 public:
  PwriteFile(const std::string& file_name, OpenMode mode)
      : descriptor_(open_descriptor(file_name, mode)), size_(descriptor_size(descriptor_.get())) {}
  explicit PwriteFile(Descriptor descriptor)
      : descriptor_(std::move(descriptor)), size_(descriptor_size(descriptor_.get())) {}

  std::string_view io_path() const override { return "pwrite"; }
  std::uint64_t size() const override { return size_.load(std::memory_order_relaxed); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    require_host_memory(out, io_path());
    ssize_t moved = 0;
    do {
      moved = ::pread(descriptor_.get(), out.data, out.size, static_cast<off_t>(offset));
    } while (moved < 0 && errno == EINTR);
    if (moved < 0) throw_errno(ErrorCode::kReadFailed, "pread", offset);
    return static_cast<std::size_t>(moved);
  }

  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    require_host_memory(in, io_path());
    ssize_t moved = 0;
    do {
      moved = ::pwrite(descriptor_.get(), in.data, in.size, static_cast<off_t>(offset));
    } while (moved < 0 && errno == EINTR);
    if (moved < 0) throw_errno(ErrorCode::kWriteFailed, "pwrite", offset);
    const std::uint64_t end = offset + static_cast<std::uint64_t>(moved);
    std::uint64_t size = size_.load(std::memory_order_relaxed);
    while (size < end && !size_.compare_exchange_weak(size, end, std::memory_order_relaxed)) {
    }
    return static_cast<std::size_t>(moved);
  }

  void sync_all() override { sync_descriptor(descriptor_.get()); }

 private:
  Descriptor descriptor_;
  std::atomic<std::uint64_t> size_;
};

}  // namespace

IoPath pwrite_path() {
  return {"pwrite", "pread and pwrite through the page cache", "", [] { return std::string(); },
          [](const std::string& file_name, OpenMode mode) -> std::unique_ptr<File> {
            return std::make_unique<PwriteFile>(file_name, mode);
          }};
}

std::unique_ptr<File> temporary_file() {
  const char* from_environment = ::getenv("TMPDIR");
  const std::string directory = from_environment != nullptr && *from_environment != '\0' ? from_environment : "/tmp";
  // A file that never had a name is left by no kill; not every file system can make one.
  Descriptor temporary(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (temporary.get() < 0) {
    std::string name = directory + "/tzmark-XXXXXX";
    temporary = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (temporary.get() < 0) throw_errno(ErrorCode::kOpenFailed, "cannot create a temporary file in " + directory);
    ::unlink(name.c_str());
  }
  return std::make_unique<PwriteFile>(std::move(temporary));
}

std::unique_ptr<File> spool(int descriptor) {
  auto file = temporary_file();
  std::vector<std::byte> block(1 << 20);
  for (std::uint64_t offset = 0;;) {
    const ssize_t moved = ::read(descriptor, block.data(), block.size());
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) throw_errno(ErrorCode::kReadFailed, "cannot read the stream", offset);
    if (moved == 0) return file;
    file->write_at(offset, {block.data(), static_cast<std::size_t>(moved)});
    offset += static_cast<std::uint64_t>(moved);
  }
}

}  // namespace tzmark
