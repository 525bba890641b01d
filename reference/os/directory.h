// An open directory, and the files in it by their names: what changes them cannot be led elsewhere by a directory that
// is renamed, or by a symbolic link that is put under a name meanwhile.
//
// Names have no slash, and no call follows a symbolic link that one of them is. For any threads: it keeps no position.
// Errors: TZE-ENV rules.
#pragma once

#include <sys/types.h>

#include <string>

#include "io/paths.h"

namespace tzmark {

class Directory {
 public:
  // An empty name is the current directory.
  explicit Directory(const std::string& name);
  // The directory that a file is in, or would be.
  static Directory of(const std::string& file_name);

  int get() const { return descriptor_.get(); }

  // Opens or creates a file; O_NOFOLLOW, O_CLOEXEC and O_NONBLOCK are added, so that no FIFO can block. Returns an
  // empty descriptor, and leaves errno set, if that fails.
  Descriptor open_file(const std::string& name, int flags, mode_t mode = 0) const;
  // Creates a file that no kill leaves behind, as it has no name until give_name. Returns an empty descriptor where the
  // file system has no such files, or none that could get a name later.
  Descriptor create_without_name(mode_t mode) const;
  // Gives a file that was created without a name one that nothing has. Returns false, and leaves errno set, if that
  // fails.
  bool give_name(int fd, const std::string& name) const;
  // Whether anything has the name, be it a symbolic link that leads nowhere.
  bool has(const std::string& name) const;
  // Whether the name is that of an open file, and not of one that has taken its place.
  bool is_name_of(const std::string& name, int fd) const;
  // Replaces what has the new name.
  void rename_file(const std::string& from, const std::string& to) const;
  // Returns whether there was a file to remove.
  bool remove_file(const std::string& name) const;
  // Makes names durable: that files were created, renamed or removed.
  void sync() const;

 private:
  Descriptor descriptor_;
};

// The part of a file's name that Directory::of leaves.
std::string name_in_directory(const std::string& file_name);

}  // namespace tzmark
