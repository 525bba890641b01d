// Moving files between the pool and the states.
#include "testing/disk/file_pool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "io/paths.h"

namespace tzmark::test {

void FilePool::hold(const std::string& name, FileNumber file) {
  struct stat status {};
  if (::lstat(name.c_str(), &status) != 0) return;
  numbers_[status.st_ino] = file;
  // It may be there by another of its names.
  std::error_code ignored;
  std::filesystem::create_hard_link(name, name_of(file), ignored);
}

void FilePool::take(FileNumber file, std::span<const std::byte> content, const std::string& name) {
  std::error_code ignored;
  std::filesystem::rename(name_of(file), name, ignored);
  const Descriptor opened(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct stat status {};
  const bool is_written =
      opened.get() >= 0 && ::ftruncate(opened.get(), 0) == 0 &&
      ::pwrite(opened.get(), content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()) &&
      ::fstat(opened.get(), &status) == 0;
  if (!is_written) throw std::runtime_error("cannot make " + name);
  numbers_[status.st_ino] = file;
}

void FilePool::take_back(const std::string& directory) {
  std::vector<std::filesystem::path> entries;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) entries.push_back(entry.path());
  for (const auto& entry : entries) {
    struct stat status {};
    if (::lstat(entry.c_str(), &status) != 0) throw std::runtime_error("cannot look at " + entry.string());
    if (S_ISDIR(status.st_mode)) take_back(entry);
    const auto known = numbers_.find(status.st_ino);
    if (known != numbers_.end()) {
      std::filesystem::rename(entry, name_of(known->second));
    }
    // What had two names is in the pool already.
    std::filesystem::remove(entry);
  }
}

}  // namespace tzmark::test
