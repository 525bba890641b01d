// Files that appear whole or not at all.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>

#include "io/in_place.h"

namespace tzmark {
AtomicFile::AtomicFile(std::string final_name, std::string_view io_path, Existing existing)
    : final_name_(std::move(final_name)), existing_(existing) {
  // A name that cannot be looked up cannot be created either, and that says why.
  std::error_code ignored;
  const auto status = std::filesystem::status(final_name_, ignored);
  if (std::filesystem::exists(status)) {
    if (existing_ == Existing::kRefuse) throw Error(ErrorCode::kOpenFailed, "the file exists already");
    // A rename would put a regular file in the place of /dev/null.
    if (!std::filesystem::is_regular_file(status)) {
      throw Error(ErrorCode::kOpenFailed, "only a regular file can be replaced");
    }
  }
  std::random_device random;
  temporary_name_ = fmt::format("{}.tmp-{:08x}", final_name_, random());
  file_ = open_file(temporary_name_, OpenMode::kCreate, io_path);
}

AtomicFile::~AtomicFile() {
  file_.reset();
  if (!committed_) ::unlink(temporary_name_.c_str());
}

void AtomicFile::commit() {
  // The order makes the promise: content first, then the name, then the directory that holds the name.
  file_->sync();
  file_.reset();
  if (existing_ == Existing::kRefuse) {
    // link fails if somebody else has made the file since, which rename would overwrite.
    if (::link(temporary_name_.c_str(), final_name_.c_str()) != 0) {
      throw_errno(ErrorCode::kWriteFailed, "cannot give the file its name");
    }
    ::unlink(temporary_name_.c_str());
  } else if (std::rename(temporary_name_.c_str(), final_name_.c_str()) != 0) {
    throw_errno(ErrorCode::kWriteFailed, "cannot give the file its name");
  }
  committed_ = true;
  sync_directory_of(final_name_);
}

}  // namespace tzmark
