// The file in memory.
#include "testing/files/memory_file.h"

#include <algorithm>
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

}  // namespace tzmark
