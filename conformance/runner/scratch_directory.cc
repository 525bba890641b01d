// A directory for the files of one case; see scratch_directory.h.
#include "runner/scratch_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <system_error>

#include "runner/console.h"
#include "runner/errors.h"

namespace tzmark::conformance {

namespace fs = std::filesystem;

namespace {

void make_below(const fs::path& parent, std::optional<MadeDirectory>& made) {
  try {
    made.emplace(parent, "tzmark-");
  } catch (const std::system_error& error) {
    throw EnvironmentError(error.what());
  }
}

void remove_made(std::optional<MadeDirectory>& made) {
  if (!made) return;
  try {
    made->remove();
  } catch (const std::system_error& error) {
    tell(error.what());
  }
}

}  // namespace

// What it throws is explained where the program ends.
fs::path temporary_directory() { return fs::absolute(fs::temp_directory_path()); }

CaseRoot::CaseRoot() { make_below(temporary_directory(), made_); }

CaseRoot::~CaseRoot() { remove_made(made_); }

std::shared_ptr<const CaseRoot> case_root() {
  thread_local std::weak_ptr<const CaseRoot> current;
  std::shared_ptr<const CaseRoot> root = current.lock();
  if (!root) current = root = std::make_shared<const CaseRoot>();
  return root;
}

ScratchDirectory::ScratchDirectory(Place place) : root_(place == Place::kCaseRoot ? case_root() : nullptr) {
  make_below(root_ ? root_->path() : temporary_directory(), made_);
  path_ = made_->path();
}

ScratchDirectory::ScratchDirectory(const fs::path& kept) {
  std::error_code error;
  fs::create_directories(kept, error);
  if (error) throw EnvironmentError(fmt::format("{}: {}", kept.string(), error.message()));
  path_ = fs::canonical(kept);
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

ScratchDirectory::~ScratchDirectory() { remove_made(made_); }

}  // namespace tzmark::conformance
