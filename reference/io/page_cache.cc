// Samples a file with mincore; see page_cache.h.
#include "io/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tzmark/descriptor.h"

namespace tzmark {

std::optional<bool> is_cached(const std::string& file_name) {
  const Descriptor fd(::open(file_name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) return {};
  // To others, mincore reports every page as resident.
  if (::geteuid() != 0 && status.st_uid != ::geteuid() && ::access(file_name.c_str(), W_OK) != 0) return {};
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return {};
  constexpr std::uint64_t kSampledPages = 256;
  const std::uint64_t pages = (bytes + page_bytes - 1) / page_bytes;
  const std::uint64_t samples = std::min(pages, kSampledPages);
  std::uint64_t resident = 0;
  bool failed = false;
  for (std::uint64_t i = 0; i < samples; ++i) {
    unsigned char state = 0;
    auto* const page = static_cast<std::byte*>(mapped) + i * pages / samples * page_bytes;
    failed = failed || ::mincore(page, 1, &state) != 0;
    resident += state & 1U;
  }
  ::munmap(mapped, bytes);
  if (failed) return {};
  return 2 * resident >= samples;
}

}  // namespace tzmark
