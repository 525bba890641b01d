// Keeps the files that a recorded run has met, so that states of a disk are made of the very files: an undo journal
// knows its file by inode and creation time.
//
// A file that is in no state has a name in the pool. Another that is needed and lost is created anew.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace tzmark::test {

using FileNumber = std::size_t;

class FilePool {
 public:
  // An empty directory, on the file system of the states.
  explicit FilePool(std::string directory) : directory_(std::move(directory)) {}

  // Gives a file a second name, so that it stays when it loses the first.
  void hold(const std::string& name, FileNumber file);
  // Moves a file out of the pool, with this content.
  void take(FileNumber file, std::span<const std::byte> content, const std::string& name);
  // Empties a directory: its files go back to the pool, and those that were never in it are removed.
  void take_back(const std::string& directory);

 private:
  std::string name_of(FileNumber file) const { return directory_ + "/" + std::to_string(file); }

  const std::string directory_;
  std::map<ino_t, FileNumber> numbers_;
};

}  // namespace tzmark::test
