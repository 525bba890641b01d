// A directory for the files of one case; see scratch_directory.h.
#include "runner/scratch_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <system_error>

#include "runner/console.h"
#include "runner/errors.h"

namespace tzmark::conformance {

namespace fs = std::filesystem;

// What it throws is explained where the program ends.
fs::path temporary_directory() { return fs::absolute(fs::temp_directory_path()); }

ScratchDirectory::ScratchDirectory(const std::optional<fs::path>& kept) {
  if (kept) {
    std::error_code error;
    fs::create_directories(*kept, error);
    if (error) throw EnvironmentError(fmt::format("{}: {}", kept->string(), error.message()));
    path_ = fs::canonical(*kept);
    return;
  }
  const fs::path parent = temporary_directory();
  try {
    made_.emplace(parent, "tzmark-");
    path_ = made_->path();
  } catch (const std::system_error& error) {
    throw EnvironmentError(error.what());
  }
}

bool ScratchDirectory::holds_only(const fs::path& name) const {
  struct stat own {
  }, named{};
  if (!made_ || ::fstat(made_->get(), &own) != 0 || ::lstat(path_.c_str(), &named) != 0) return false;
  std::error_code error;
  if (own.st_dev != named.st_dev || own.st_ino != named.st_ino || (own.st_mode & ACCESSPERMS) != S_IRWXU) return false;
  fs::directory_iterator entry(path_, error);
  if (error || entry == fs::directory_iterator() || entry->path().filename() != name) return false;
  return entry.increment(error) == fs::directory_iterator() && !error;
}

ScratchDirectory::~ScratchDirectory() {
  if (!made_) return;
  try {
    made_->remove();
  } catch (const std::system_error& error) {
    tell(error.what());
  }
}

}  // namespace tzmark::conformance
