// A temporary file; see scratch_file.h.
#include "runner/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "runner/descriptor.h"
#include "runner/scratch_directory.h"

namespace tzmark::conformance {

ScratchFile::ScratchFile(std::string_view content) : ScratchFile(content, temporary_directory()) {}

ScratchFile::ScratchFile(std::string_view content, const std::filesystem::path& directory) {
  std::string name = directory / "tzmark-XXXXXX";
  // Readable by its owner alone, and never inherited by a process that another thread starts.
  const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.open()) throw EnvironmentError(fmt::format("{}: {}", name, std::strerror(errno)));
  path_ = name;
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::string reason = std::strerror(errno);
      ::unlink(name.c_str());
      throw EnvironmentError(fmt::format("{}: {}", name, reason));
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

ScratchFile::~ScratchFile() { ::unlink(path_.c_str()); }

}  // namespace tzmark::conformance
