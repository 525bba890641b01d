// A temporary file that only this user can read. The destructor removes it.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <filesystem>
#include <string_view>

namespace tzmark::conformance {

class ScratchFile {
 public:
  // Throws EnvironmentError if the file cannot be written to the directory, by default that for temporary files.
  explicit ScratchFile(std::string_view content);
  ScratchFile(std::string_view content, const std::filesystem::path& directory);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tzmark::conformance
