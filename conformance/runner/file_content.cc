// Whole files; see file_content.h.
#include "runner/file_content.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "runner/descriptor.h"

namespace tzmark::conformance {
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t size_max_bytes) {
  const auto fail = [&](const std::string& reason) {
    return EnvironmentError(fmt::format("{}: {}", path.string(), reason));
  };
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) throw fail(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw fail("is not a file");
  const auto size_bytes = static_cast<std::uint64_t>(status.st_size);
  if (size_bytes > size_max_bytes) throw fail(fmt::format("has {} bytes, more than {}", size_bytes, size_max_bytes));
  std::vector<std::byte> content(size_bytes);
  std::size_t done_bytes = 0;
  while (done_bytes < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + done_bytes, content.size() - done_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw fail(std::strerror(errno));
    if (got == 0) break;
    done_bytes += static_cast<std::size_t>(got);
  }
  // Someone may have shortened it meanwhile.
  content.resize(done_bytes);
  return content;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) throw EnvironmentError(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace tzmark::conformance
