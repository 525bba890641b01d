// The decorator that makes calls fail.
#include "testing/faults/faulty_file.h"

#include <algorithm>
#include <cerrno>

#include "io/paths.h"

namespace tzmark {

FaultyFile::Fault FaultyFile::next_fault() {
  const std::uint64_t call = next_call_.fetch_add(1);
  const bool hit = every_ ? call_ != 0 && call % call_ == 0 : call == call_;
  if (!hit) return Fault::kNone;
  if (fault_ == Fault::kError || fault_ == Fault::kNoSpace) errno = fault_ == Fault::kError ? EIO : ENOSPC;
  return fault_;
}

std::size_t FaultyFile::read_up_to(std::uint64_t offset, MutableBuffer out, std::size_t bytes_max) {
  if (offset >= inner_.size()) return 0;
  const auto bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(std::min(out.size, bytes_max), inner_.size() - offset));
  inner_.read_at(offset, out.sub(0, bytes));
  return bytes;
}

std::size_t FaultyFile::read_some(std::uint64_t offset, MutableBuffer out) {
  switch (next_fault()) {
    case Fault::kError:
    case Fault::kNoSpace:
      throw_errno(ErrorCode::kReadFailed, "injected fault", offset);
    case Fault::kEnd:
      return 0;
    case Fault::kShort:
      return read_up_to(offset, out, 1);
    case Fault::kNone:
      break;
  }
  return read_up_to(offset, out, transfer_bytes_max_);
}

std::size_t FaultyFile::write_some(std::uint64_t offset, ConstBuffer in) {
  switch (next_fault()) {
    case Fault::kError:
    case Fault::kNoSpace:
      throw_errno(ErrorCode::kWriteFailed, "injected fault", offset);
    case Fault::kShort:
      in = in.sub(0, 1);
      break;
    case Fault::kEnd:
    case Fault::kNone:
      break;
  }
  in = in.sub(0, std::min(in.size, transfer_bytes_max_));
  inner_.write_at(offset, in);
  return in.size;
}

void FaultyFile::sync_all() {
  const Fault fault = next_fault();
  if (fault == Fault::kError || fault == Fault::kNoSpace) throw_errno(ErrorCode::kSyncFailed, "injected fault");
  inner_.sync();
}

}  // namespace tzmark
