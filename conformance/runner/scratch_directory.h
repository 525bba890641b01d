// A directory for the files of one case. The destructor removes it unless the user asked to keep it, and reports on
// stderr what it cannot remove.
//
// Directories that adapters write to lie in one of the thread, the case root, because a process that serves is told
// once where it may write, before the directories of its questions exist.
//
// Thread-safety: one object belongs to one thread; the functions are of the environment and of the calling thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "program/made_directory.h"

namespace tzmark::conformance {

// The directory for temporary files, an absolute path wherever the user's own is relative to: adapters may change their
// working directory.
std::filesystem::path temporary_directory();

// A directory in which those of one thread lie. The destructor removes it with all that adapters left there.
class CaseRoot {
 public:
  // Throws EnvironmentError if it cannot be made.
  CaseRoot();
  ~CaseRoot();
  CaseRoot(const CaseRoot&) = delete;
  CaseRoot& operator=(const CaseRoot&) = delete;

  const std::filesystem::path& path() const { return made_->path(); }

 private:
  std::optional<MadeDirectory> made_;
};

// The one of the calling thread, which exists as long as it is held. Throws as its constructor does.
std::shared_ptr<const CaseRoot> case_root();

class ScratchDirectory {
 public:
  enum class Place {
    kApart,     // in temporary_directory()
    kCaseRoot,  // in that of the calling thread: for files that adapters write
  };

  // A temporary directory for this user alone. Throws EnvironmentError if it cannot be made.
  explicit ScratchDirectory(Place place = Place::kApart);
  // kept: may exist already. Throws as above.
  explicit ScratchDirectory(const std::filesystem::path& kept);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Whether a temporary directory still has its name and its permissions, and nothing but this name in it.
  bool holds_only(const std::filesystem::path& name) const;

 private:
  std::shared_ptr<const CaseRoot> root_;  // none if it lies elsewhere
  std::filesystem::path path_;
  std::optional<MadeDirectory> made_;  // none if it is kept
};

}  // namespace tzmark::conformance
