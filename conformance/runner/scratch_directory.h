// A directory for the files of one case. The destructor removes it unless the user asked to keep it, and reports on
// stderr what it cannot remove.
//
// Thread-safety: one object belongs to one thread; the function is one of the environment.
#pragma once

#include <filesystem>
#include <optional>

#include "program/made_directory.h"

namespace tzmark::conformance {

// The directory for temporary files, an absolute path wherever the user's own is relative to: adapters may change their
// working directory.
std::filesystem::path temporary_directory();

class ScratchDirectory {
 public:
  // A temporary directory for this user alone; or kept, which may exist already. Throws EnvironmentError if it cannot
  // be made.
  explicit ScratchDirectory(const std::optional<std::filesystem::path>& kept = std::nullopt);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Whether a temporary directory still has its name and its permissions, and nothing but this name in it.
  bool holds_only(const std::filesystem::path& name) const;

 private:
  std::filesystem::path path_;
  std::optional<MadeDirectory> made_;  // none if it is kept
};

}  // namespace tzmark::conformance
