// A folder for the files of one case. It is gone when its object is, unless the user asked to keep it; what cannot be
// removed is told on stderr.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <filesystem>
#include <optional>

namespace tzmark::conformance {

class ScratchFolder {
 public:
  // Among the temporary files, for this user alone; or, if kept is given, that folder, which may be there already.
  // Throws EnvironmentError if it cannot be made.
  explicit ScratchFolder(const std::optional<std::filesystem::path>& kept = std::nullopt);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ScratchFolder(ScratchFolder&&) = delete;
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace tzmark::conformance
