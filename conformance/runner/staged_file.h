// A file that an adapter is asked about: a copy under a name that tells nothing of it, and what tells whether an
// adapter changed it. An adapter that is asked about a file of the corpus itself would see its verdict in the path,
// find the manifest above it, and could change what later runs are judged by.
//
// Thread-safety: one object belongs to one thread; the function is one of the file system.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/manifest.h"
#include "runner/scratch_directory.h"

namespace tzmark::conformance {

// A copy, alone in a directory of this user. The next file of the thread has the same directory, name and inode, unless
// an adapter left something there: a reader must not take it for the one before, and to make a directory takes longer
// than many a question. The end of the thread removes the last one. The copy may be written to, so that a file in an
// ordinary directory is one for every user: only the input mode read-only forbids it, to all.
class StagedFile {
 public:
  // suffix ends the name, such as ".tensors". shards lie where an index looks for them. The placeholder, if there is
  // one, is where the file gets the absolute path of its directory. content has to outlive the object. Throws
  // EnvironmentError if a file cannot be written.
  StagedFile(std::span<const std::byte> content, std::string_view suffix, std::vector<Shard> shards = {},
             std::string_view directory_placeholder = {});
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  // The file gets other content, under its name, with its inode unless an adapter changed that. Throws
  // EnvironmentError if it cannot be written.
  void put(std::span<const std::byte> content);

  // Whether all shards have the content that they had.
  bool shards_hold() const;

  // What the file had at first.
  std::span<const std::byte> content() const {
    return replaced_.empty() ? content_ : std::as_bytes(std::span(replaced_));
  }

  std::string_view suffix() const { return suffix_; }
  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& directory() const { return directory_->path(); }

 private:
  std::unique_ptr<ScratchDirectory> directory_;
  std::span<const std::byte> content_;
  std::string replaced_;  // the same with the path of the directory
  std::string suffix_;
  std::filesystem::path path_;
  std::vector<Shard> shards_;
};

// Whether there is a file of this name, no link, that this user may read, with this content. Reads it each time: on
// some file systems a write through a mapping changes no time.
bool holds(const std::filesystem::path& path, std::span<const std::byte> content);

}  // namespace tzmark::conformance
