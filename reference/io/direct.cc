// The direct path: pread and pwrite with O_DIRECT, which bypass the page cache. Threads need no coordination.
#include <unistd.h>

#include <cerrno>

#include "io/aligned_file.h"

namespace tzmark {
namespace {

class DirectFile final : public AlignedFile {
 public:
  explicit DirectFile(Opening&& opening) : AlignedFile("direct", open_directly(std::move(opening))) {}

  // There is no read-ahead or write-back, so only queued transfers keep the device busy.
  unsigned queue_depth_default() const override { return 8; }

 protected:
  ssize_t move(Transfer::Kind kind, int descriptor, std::byte* memory, std::size_t bytes,
               std::uint64_t offset) override {
    const auto at = static_cast<off_t>(offset);
    const ssize_t moved = kind == Transfer::Kind::kRead ? ::pread(descriptor, memory, bytes, at)
                                                        : ::pwrite(descriptor, memory, bytes, at);
    return moved < 0 ? -errno : moved;
  }
};

}  // namespace

PathOfDescriptor direct_path() {
  // Whether the file system supports direct I/O is known only when a file is opened.
  return {.name = "direct",
          .summary = "pread and pwrite that bypass the page cache (O_DIRECT)",
          .traits = {.bypasses_cache = true},
          .open = [](Opening&& opening) -> std::unique_ptr<File> {
            return std::make_unique<DirectFile>(std::move(opening));
          }};
}

}  // namespace tzmark
