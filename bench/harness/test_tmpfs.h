// For tests: whether a directory is on tmpfs, whose files are in the page cache alone.
#pragma once

#include <linux/magic.h>
#include <sys/vfs.h>

#include <string>

namespace tzmark::test {

// False if there is no such directory.
inline bool is_tmpfs(const std::string& directory) {
  struct statfs status {};
  return ::statfs(directory.c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

}  // namespace tzmark::test
