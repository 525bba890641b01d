// Whole transfers over partial ones, and the registry of paths.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "bytes/requires.h"
#include "io/paths.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

// For paths whose calls return when the bytes have moved.
class SynchronousQueue final : public TransferQueue {
 public:
  explicit SynchronousQueue(File& file) : file_(file) {}

  unsigned depth() const override { return 1; }
  unsigned in_flight() const override { return done_ != nullptr ? 1 : 0; }
  void start(Transfer& transfer) override {
    TZMARK_REQUIRES(done_ == nullptr);
    transfer.error = nullptr;
    try {
      if (transfer.kind == Transfer::Kind::kRead) {
        file_.read_at(transfer.offset, transfer.memory);
      } else {
        file_.write_at(transfer.offset, transfer.memory);
      }
    } catch (...) {
      transfer.error = std::current_exception();
    }
    done_ = &transfer;
  }
  Transfer& wait() override {
    TZMARK_REQUIRES(done_ != nullptr);
    return *std::exchange(done_, nullptr);
  }
  Transfer* poll() override { return std::exchange(done_, nullptr); }

 private:
  File& file_;
  Transfer* done_ = nullptr;
};

std::span<const PathOfDescriptor> paths_of_descriptors() {
  // Each path says in its own file what it is; "auto" takes the first that this machine has.
  static const std::array paths = {pwrite_path(),   buffered_path(),     direct_path(),       mmap_path(),
                                   uring_path(),    uring_direct_path(), uring_sqpoll_path(), pwrite_dontcache_path(),
                                   gpudirect_path()};
  return paths;
}

// The path of a name or, of "auto", the first that this machine has.
const PathOfDescriptor& usable_path(std::string_view io_path) {
  std::string names;
  for (const PathOfDescriptor& path : paths_of_descriptors()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", path.name);
    if (io_path != "auto" && io_path != path.name) continue;
    const std::string reason = path.why_unavailable();
    if (reason.empty()) return path;
    if (io_path != "auto") {
      throw Error(ErrorCode::kUnavailable, fmt::format("I/O path {}: {}", path.name, reason));
    }
  }
  throw Error(ErrorCode::kUsage, fmt::format("there is no I/O path '{}'; this build has {}", io_path, names));
}

std::unique_ptr<File> open_over(const PathOfDescriptor& path, const std::string& file_name, OpenMode mode) {
  Descriptor descriptor = open_descriptor(file_name, mode);
  struct stat created {};
  if (::fstat(descriptor.get(), &created) != 0) throw_errno(ErrorCode::kOpenFailed, "fstat");
  try {
    return path.open({std::move(descriptor), file_name, mode});
  } catch (const Error&) {
    // What was created for nothing is removed, if it still has its name.
    struct stat named {};
    if ((mode == OpenMode::kCreate || mode == OpenMode::kCreatePrivate) && ::lstat(file_name.c_str(), &named) == 0 &&
        named.st_dev == created.st_dev && named.st_ino == created.st_ino) {
      ::unlink(file_name.c_str());
    }
    throw;
  }
}

}  // namespace

void File::read_at(std::uint64_t offset, MutableBuffer out) {
  for (std::size_t done = 0; done < out.size;) {
    const std::size_t moved = read_some(offset + done, out.sub(done, out.size - done));
    if (moved == 0) throw early_end(out.size - done, offset + done);
    done += moved;
  }
}

void File::write_at(std::uint64_t offset, ConstBuffer in) {
  for (std::size_t done = 0; done < in.size;) done += write_some(offset + done, in.sub(done, in.size - done));
}

void File::sync() { sync_all(); }

void File::reserve(std::uint64_t) {}

std::unique_ptr<TransferQueue> File::make_queue(unsigned) { return std::make_unique<SynchronousQueue>(*this); }

std::span<const IoPath> io_paths() {
  static const auto paths = [] {
    std::vector<IoPath> rows;
    for (const PathOfDescriptor& path : paths_of_descriptors()) {
      rows.push_back(
          {path.name, path.summary, path.variant_of, path.why_unavailable,
           [&path](const std::string& file_name, OpenMode mode) { return open_over(path, file_name, mode); }});
    }
    return rows;
  }();
  return paths;
}

std::unique_ptr<File> open_file(const std::string& file_name, OpenMode mode, std::string_view io_path) {
  return open_over(usable_path(io_path), file_name, mode);
}

std::unique_ptr<File> open_file(Descriptor descriptor, const std::string& file_name, OpenMode mode,
                                std::string_view io_path) {
  let_wait(descriptor.get());
  return usable_path(io_path).open({std::move(descriptor), file_name, mode});
}

void copy_bytes(File& from, std::uint64_t from_offset, File& to, std::uint64_t to_offset, std::uint64_t bytes) {
  constexpr std::size_t kPieceBytes = 1 << 20;
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, bytes)));
  for (std::uint64_t done = 0; done < bytes;) {
    const auto part =
        std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - done)));
    from.read_at(from_offset + done, part);
    to.write_at(to_offset + done, part);
    done += part.size();
  }
}

}  // namespace tzmark
