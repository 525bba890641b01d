// Whole transfers over partial ones, and paths by name.
#include <fmt/format.h>

#include <utility>

#include "bytes/pieces.h"
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

std::unique_ptr<File> open_file(Descriptor descriptor, const std::string& file_name, OpenMode mode,
                                std::string_view io_path) {
  let_wait(descriptor.get());
  const FileVersion version = file_version(descriptor.get());
  auto file = usable_path(io_path).open({std::move(descriptor), file_name, mode});
  file->set_version(version);
  return file;
}

void copy_bytes(File& from, std::uint64_t from_offset, File& to, std::uint64_t to_offset, std::uint64_t bytes) {
  constexpr std::size_t kPieceBytes = 1 << 20;
  for_each_piece(bytes, kPieceBytes, [&](std::uint64_t done, std::span<std::byte> piece) {
    from.read_at(from_offset + done, piece);
    to.write_at(to_offset + done, piece);
  });
}

}  // namespace tzmark
