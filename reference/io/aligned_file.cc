// Opening files for direct I/O, and transfers in steps.
#include "io/aligned_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tzmark {
namespace {

// From Linux 6.1 on; the C library's headers may be older than the kernel.
#ifndef STATX_DIOALIGN
#define STATX_DIOALIGN 0x00002000U
#endif

constexpr std::size_t kUnitBytesMin = 4096;

[[noreturn]] void refuse_direct(const char* why) {
  throw Error(ErrorCode::kUnavailable, fmt::format("the file system does not support direct I/O (O_DIRECT): {}", why));
}

// The alignment where statx does not report one. Excludes network file systems, whose block size is a transfer size.
std::size_t block_bytes(int fd) {
  constexpr std::size_t kBlockBytesMax = 64 << 10;
  struct statvfs status {};
  if (::fstatvfs(fd, &status) != 0 || status.f_bsize > kBlockBytesMax) return 0;
  return status.f_bsize;
}

Alignment alignment_of(int fd) {
  // An edge must never share a page with a direct transfer.
  const std::size_t smallest = std::max(kUnitBytesMin, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  struct statx status {};
  const bool told =
      ::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0;
  if (!told) {
    const std::size_t unit = std::max(smallest, block_bytes(fd));
    return {unit, unit};
  }
  if (status.stx_dio_offset_align == 0) {
    refuse_direct("statx reports that this file would silently use the page cache");
  }
  return {std::max<std::size_t>(smallest, status.stx_dio_offset_align),
          std::max<std::size_t>(1, status.stx_dio_mem_align)};
}

Descriptor open_again_directly(int fd, const std::string& file_name, OpenMode mode) {
  Descriptor direct = open_again(fd, file_name, (mode == OpenMode::kRead ? O_RDONLY : O_RDWR) | O_DIRECT);
  if (direct.get() >= 0) return direct;
  if (errno == EINVAL) refuse_direct("Invalid argument");
  throw_errno(ErrorCode::kOpenFailed, "cannot open directly");
}

}  // namespace

OpenedFile open_plainly(Opening&& opening) {
  OpenedFile opened;
  opened.buffered = std::move(opening.descriptor);
  return opened;
}

OpenedFile open_directly(Opening&& opening) {
  // The buffered descriptor comes first, since a kernel may create the file before it refuses O_DIRECT.
  OpenedFile opened;
  opened.buffered = std::move(opening.descriptor);
  // Refuses what has no size: opening a pipe again would block until its other end is opened.
  descriptor_size(opened.buffered.get());
  opened.direct = open_again_directly(opened.buffered.get(), opening.file_name, opening.mode);
  opened.alignment = alignment_of(opened.direct.get());
  return opened;
}

SizedFile::SizedFile(OpenedFile opened) : opened_(std::move(opened)), size_(descriptor_size(opened_.buffered.get())) {}

void SizedFile::reserve(std::uint64_t bytes) {
  const int fd = opened_.buffered.get();
  try {
    if (reserve_room(fd, 0, bytes)) grow_to(bytes);
  } catch (const Error&) {
    // A part may have been allocated, which changes the size.
    grow_to(descriptor_size(fd));
    throw;
  }
}

void SizedFile::grow_to(std::uint64_t end) {
  std::uint64_t size = size_.load(std::memory_order_relaxed);
  while (size < end && !size_.compare_exchange_weak(size, end, std::memory_order_relaxed)) {
  }
}

AlignedFile::AlignedFile(std::string_view io_path, OpenedFile file)
    : SizedFile(std::move(file)), io_path_(io_path), bounce_(opened().alignment) {}

bool AlignedFile::ends_before(const AlignedStep& step) const {
  return descriptor_size(opened().buffered.get()) <= step.offset + step.skip;
}

ssize_t AlignedFile::move_uninterrupted(Transfer::Kind kind, const AlignedStep& step, std::byte* memory) {
  ssize_t moved = 0;
  do {
    moved = move(kind, opened().descriptor_of(step.route), memory, step.bytes, step.offset);
  } while (moved == -EINTR || moved == -EAGAIN);
  if (kind == Transfer::Kind::kWrite || moved <= 0) return moved;
  return static_cast<ssize_t>(bytes_still_there(opened().buffered.get(), step.offset, static_cast<std::size_t>(moved)));
}

std::size_t AlignedFile::read_some(std::uint64_t offset, MutableBuffer out) {
  require_host_memory(out, io_path_);
  const AlignedStep step = read_step(opened().alignment, offset, out, bounce_.piece_bytes());
  AlignedMemory piece = step.route == AlignedStep::Route::kBounced ? bounce_.take() : nullptr;
  std::byte* const memory = piece ? piece.get() : out.data;
  ssize_t moved = 0;
  do {
    moved = move_uninterrupted(Transfer::Kind::kRead, step, memory);
  } while (moved > 0 && step.useful_of(static_cast<std::size_t>(moved)) == 0 && !ends_before(step));
  const std::size_t useful = moved < 0 ? 0 : step.useful_of(static_cast<std::size_t>(moved));
  if (piece) {
    std::memcpy(out.data, memory + step.skip, useful);
    bounce_.give_back(std::move(piece));
  }
  if (moved < 0) throw move_error(io_path_, Transfer::Kind::kRead, static_cast<int>(-moved), offset);
  return useful;
}

std::size_t AlignedFile::write_some(std::uint64_t offset, ConstBuffer in) {
  require_host_memory(in, io_path_);
  const AlignedStep step = write_step(opened().alignment, offset, in, bounce_.piece_bytes());
  AlignedMemory piece = step.route == AlignedStep::Route::kBounced ? bounce_.take() : nullptr;
  if (piece) std::memcpy(piece.get(), in.data, step.bytes);
  // A write does not modify the memory; move() serves both directions.
  std::byte* const memory = piece ? piece.get() : const_cast<std::byte*>(in.data);
  const ssize_t moved = move_uninterrupted(Transfer::Kind::kWrite, step, memory);
  if (piece) bounce_.give_back(std::move(piece));
  // The kernel does not report an empty write as an error, but it would cause an endless loop here.
  if (moved <= 0)
    throw move_error(io_path_, Transfer::Kind::kWrite, moved == 0 ? EIO : static_cast<int>(-moved), offset);
  grow_to(offset + static_cast<std::uint64_t>(moved));
  return static_cast<std::size_t>(moved);
}

Error move_error(std::string_view io_path, Transfer::Kind kind, int error_number, std::uint64_t offset) {
  const bool reads = kind == Transfer::Kind::kRead;
  return {reads ? ErrorCode::kReadFailed : ErrorCode::kWriteFailed,
          fmt::format("{} {}: {}", io_path, reads ? "read" : "write", error_text(error_number)), offset};
}

}  // namespace tzmark
