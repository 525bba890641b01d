// The memory file, and the decorator that makes calls fail.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/paths.h"

namespace tzmark {

std::size_t MemoryFile::read_some(std::uint64_t offset, MutableBuffer out) {
  require_host_memory(out, io_path());
  if (offset >= content_.size()) return 0;
  const std::size_t moved = std::min<std::size_t>(out.size, content_.size() - offset);
  std::memcpy(out.data, content_.data() + offset, moved);
  return moved;
}

std::size_t MemoryFile::write_some(std::uint64_t offset, ConstBuffer in) {
  require_host_memory(in, io_path());
  const std::lock_guard lock(mutex_);
  if (content_.size() < offset + in.size) content_.resize(offset + in.size);
  std::memcpy(content_.data() + offset, in.data, in.size);
  return in.size;
}

FaultyFile::Fault FaultyFile::next_fault() {
  const std::uint64_t call = next_call_.fetch_add(1);
  const bool hit = every_ ? call_ != 0 && call % call_ == 0 : call == call_;
  if (!hit) return Fault::kNone;
  if (fault_ == Fault::kError || fault_ == Fault::kNoSpace) errno = fault_ == Fault::kError ? EIO : ENOSPC;
  return fault_;
}

std::size_t FaultyFile::read_some(std::uint64_t offset, MutableBuffer out) {
  switch (next_fault()) {
    case Fault::kError:
    case Fault::kNoSpace:
      throw_errno(ErrorCode::kReadFailed, "injected fault", offset);
    case Fault::kEnd:
      return 0;
    case Fault::kShort:
      return inner_.read_some(offset, out.sub(0, 1));
    case Fault::kNone:
      break;
  }
  return inner_.read_some(offset, out);
}

std::size_t FaultyFile::write_some(std::uint64_t offset, ConstBuffer in) {
  switch (next_fault()) {
    case Fault::kError:
    case Fault::kNoSpace:
      throw_errno(ErrorCode::kWriteFailed, "injected fault", offset);
    case Fault::kShort:
      return inner_.write_some(offset, in.sub(0, 1));
    case Fault::kEnd:
    case Fault::kNone:
      break;
  }
  return inner_.write_some(offset, in);
}

void FaultyFile::sync_all() {
  const Fault fault = next_fault();
  if (fault == Fault::kError || fault == Fault::kNoSpace) throw_errno(ErrorCode::kSyncFailed, "injected fault");
  inner_.sync_all();
}

}  // namespace tzmark
