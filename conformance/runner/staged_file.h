// A file that an adapter is asked about: a copy under a name that tells nothing of it, and what tells whether an
// adapter changed it. An adapter that is asked about a file of the corpus itself would see its verdict in the path,
// find the manifest above it, and could change what later runs are judged by.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tzmark::conformance {

// A copy in a folder of this user alone, which the destructor removes. It may be written to, so that a file in an
// ordinary folder is one for every user: only the input mode read-only forbids it, to all.
class StagedFile {
 public:
  // suffix ends the name, such as ".tensors". Throws EnvironmentError if the file cannot be written.
  StagedFile(const std::filesystem::path& folder, std::span<const std::byte> content, std::string_view suffix);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A file that must not change. Compares its status each time, and its content only if the status differs.
class WatchedFile {
 public:
  WatchedFile(std::filesystem::path path, std::string sha256);

  bool is_as_before();

 private:
  // Device, inode, size, and when content and status were changed; zeros if there is none.
  using Status = std::array<std::uint64_t, 7>;

  Status status() const;

  std::filesystem::path path_;
  std::string sha256_;
  Status before_;
};

}  // namespace tzmark::conformance
