// The buffered path: stdio, which most programs use. A file has one position and one buffer, so threads take turns.
//
// The stream of a file that may be written only writes: where a stream can also read, each seek to an unaligned offset
// reads a block first, whose read-ahead made writes in pieces half as fast. Such files are read with pread. Its writes
// have no buffer either: the C library of Linux drops the buffer when a flush fails, and reports success afterwards.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <mutex>

#include "io/paths.h"

namespace tzmark {
namespace {

class BufferedFile final : public File {
 public:
  explicit BufferedFile(Opening&& opening) : stream_reads_(opening.mode == OpenMode::kRead) {
    size_ = descriptor_size(opening.descriptor.get());
    // Neither mode truncates a file that is already open.
    stream_ = ::fdopen(opening.descriptor.get(), stream_reads_ ? "r" : "w");
    if (stream_ == nullptr) throw_errno(ErrorCode::kOpenFailed, "fdopen");
    if (!stream_reads_) std::setvbuf(stream_, nullptr, _IONBF, 0);
    opening.descriptor.release();
  }
  // Flushes the buffer and ignores errors; callers that need the content sync the file first.
  ~BufferedFile() override { std::fclose(stream_); }

  std::string_view io_path() const override { return "buffered"; }
  std::uint64_t size() const override {
    const std::lock_guard lock(mutex_);
    return size_;
  }
  bool writes_take_turns() const override { return true; }
  void expect_sync() override { writeback_.expect_sync(); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    require_host_memory(out, io_path());
    const std::lock_guard lock(mutex_);
    if (!stream_reads_) return read_written(offset, out);
    seek(offset, ErrorCode::kReadFailed);
    std::size_t moved = 0;
    do {
      std::clearerr(stream_);
      moved = std::fread(out.data, 1, out.size, stream_);
    } while (moved == 0 && std::ferror(stream_) != 0 && is_transient(errno));
    if (moved == 0 && std::ferror(stream_) != 0) fail(ErrorCode::kReadFailed, "fread", offset);
    return bytes_still_there(::fileno(stream_), offset, moved);
  }

  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    require_host_memory(in, io_path());
    const std::size_t moved = write_to_stream(offset, in);
    writeback_.begin(::fileno(stream_), offset, moved);
    return moved;
  }

  void sync_all() override {
    const std::lock_guard lock(mutex_);
    flush();
    sync_descriptor(::fileno(stream_));
    writeback_.require_success();
  }

 private:
  std::size_t write_to_stream(std::uint64_t offset, ConstBuffer in) {
    const std::lock_guard lock(mutex_);
    seek(offset, ErrorCode::kWriteFailed);
    std::size_t moved = 0;
    do {
      moved = std::fwrite(in.data, 1, in.size, stream_);
    } while (moved == 0 && is_transient(errno));
    if (moved == 0) fail(ErrorCode::kWriteFailed, "fwrite", offset);
    size_ = std::max(size_, offset + moved);
    return moved;
  }

  std::size_t read_written(std::uint64_t offset, MutableBuffer out) {
    flush();
    const ssize_t moved = uninterrupted(
        EAGAIN, [&] { return ::pread(::fileno(stream_), out.data, out.size, static_cast<off_t>(offset)); });
    if (moved < 0) throw_errno(ErrorCode::kReadFailed, "pread", offset);
    return bytes_still_there(::fileno(stream_), offset, static_cast<std::size_t>(moved));
  }

  void flush() {
    const int result = uninterrupted(EAGAIN, [&] { return std::fflush(stream_); });
    if (result != 0) fail(ErrorCode::kWriteFailed, "fflush", std::nullopt);
  }

  // stdio does not retry after a transient error.
  static bool is_transient(int error_number) { return error_number == EINTR || error_number == EAGAIN; }
  // Seeking flushes the buffer.
  void seek(std::uint64_t offset, ErrorCode code) {
    const int result = uninterrupted(EAGAIN, [&] { return ::fseeko(stream_, static_cast<off_t>(offset), SEEK_SET); });
    if (result != 0) fail(code, "fseeko", offset);
  }
  [[noreturn]] void fail(ErrorCode code, const char* call, std::optional<std::uint64_t> offset) {
    std::clearerr(stream_);
    throw_errno(code, call, offset);
  }

  const bool stream_reads_;
  mutable std::mutex mutex_;
  std::FILE* stream_ = nullptr;
  std::uint64_t size_ = 0;
  Writeback writeback_;
};

}  // namespace

PathOfDescriptor buffered_path() {
  // After a fork, parent and child share the file position.
  return {.name = "buffered",
          .summary = "stdio: fread and fwrite, one call at a time",
          .traits = {.starts_writeback = true, .uses_stdio = true, .is_fork_safe = false},
          .open = [](Opening&& opening) -> std::unique_ptr<File> {
            return std::make_unique<BufferedFile>(std::move(opening));
          }};
}

}  // namespace tzmark
