// Files whose bytes lie in memory.
#include "memory_file.h"

#include <algorithm>
#include <cstring>

#include "tzmark/error.h"

namespace tzmark::py {
namespace {

std::size_t copy_from(std::span<const std::byte> bytes, std::uint64_t offset, MutableBuffer out) {
  if (offset >= bytes.size()) return 0;
  const auto rest = bytes.subspan(static_cast<std::size_t>(offset));
  const std::size_t count = std::min(rest.size(), out.size);
  if (count != 0) std::memcpy(out.data, rest.data(), count);
  return count;
}

}  // namespace

std::size_t ReadOnlyMemoryFile::read_some(std::uint64_t offset, MutableBuffer out) {
  return copy_from(bytes_, offset, out);
}

std::size_t ReadOnlyMemoryFile::write_some(std::uint64_t, ConstBuffer) {
  throw Error(ErrorCode::kWriteFailed, "the memory is read-only");
}

std::uint64_t GrowingMemoryFile::size() const {
  const std::lock_guard lock(mutex_);
  return bytes_.size();
}

std::size_t GrowingMemoryFile::read_some(std::uint64_t offset, MutableBuffer out) {
  const std::lock_guard lock(mutex_);
  return copy_from(bytes_, offset, out);
}

std::size_t GrowingMemoryFile::write_some(std::uint64_t offset, ConstBuffer in) {
  const std::lock_guard lock(mutex_);
  const auto end = static_cast<std::size_t>(offset) + in.size;
  if (end > bytes_.size()) bytes_.resize(end);
  std::memcpy(bytes_.data() + offset, in.data, in.size);
  return in.size;
}

}  // namespace tzmark::py
