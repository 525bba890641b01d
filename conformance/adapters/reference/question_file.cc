// Opens the file of a question; see question_file.h.
#include "adapters/reference/question_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tzmark/error.h"

namespace tzmark::adapter {
namespace {

// Presents a range of a file as a file.
class RangeFile final : public File {
 public:
  RangeFile(std::unique_ptr<File> whole, const FileRange& part) : whole_(std::move(whole)), part_(part) {
    if (part.offset > whole_->size() || part.length > whole_->size() - part.offset) {
      throw Error(ErrorCode::kUsage, "the file ends before the requested range");
    }
  }

  std::string_view io_path() const override { return whole_->io_path(); }
  std::uint64_t size() const override { return part_.length; }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    if (offset >= part_.length) return 0;
    const auto moved = static_cast<std::size_t>(std::min<std::uint64_t>(out.size, part_.length - offset));
    whole_->read_at(part_.offset + offset, out.sub(0, moved));
    return moved;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer) override {
    throw Error(ErrorCode::kUsage, "a range of a file is read-only");
  }
  void sync_all() override {}

 private:
  std::unique_ptr<File> whole_;
  FileRange part_;
};

std::unique_ptr<File> spool_pipe(const std::string& file_name) {
  const int fd = ::open(file_name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(ErrorCode::kOpenFailed, std::strerror(errno));
  const auto close = [](const int* descriptor) { ::close(*descriptor); };
  const std::unique_ptr<const int, decltype(close)> closed(&fd, close);
  return spool(fd);
}

}  // namespace

std::unique_ptr<File> open_question_file(const std::string& file_name, const std::optional<FileRange>& part) {
  auto file = std::filesystem::is_fifo(file_name) ? spool_pipe(file_name) : open_file(file_name, OpenMode::kRead);
  if (part) return std::make_unique<RangeFile>(std::move(file), *part);
  return file;
}

}  // namespace tzmark::adapter
