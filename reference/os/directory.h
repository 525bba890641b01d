// An open directory and every operation on its entries.
//
// Operations work on the directory that was opened, whatever has its name by now, and follow no symbolic link unless
// they say so: neither a renamed directory nor a symbolic link put in place of an entry can redirect a change. Entry
// names contain no slash. Thread-safety: any thread, any time; a Directory has no position.
// Errors: TZE-ENV rules; messages begin with the entry's path.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/paths.h"
#include "os/file_lock.h"

namespace tzmark {

enum class EntryKind : std::uint8_t { kNone, kFile, kDirectory, kLink, kOther };

struct DirectoryEntry {
  std::string name;
  EntryKind kind;
};

enum class Links : std::uint8_t { kRefuse, kFollow };

class Directory {
 public:
  // Opens a directory, or the one that a symbolic link leads to. An empty name is the current directory.
  explicit Directory(const std::string& name);
  // Opens the directory that contains a file, or would.
  static Directory of(const std::string& file_name);
  // Opens the same directory once more, with its own position and locks.
  Directory again() const;

  int get() const { return descriptor_.get(); }
  const std::string& name() const { return name_; }  // it was opened by
  std::string path(const std::string& entry) const;

  std::vector<DirectoryEntry> list() const;  // sorted by name
  EntryKind kind(const std::string& entry) const;
  bool has(const std::string& entry) const { return kind(entry) != EntryKind::kNone; }
  // Returns whether an entry is this open file or directory, and not another one that has taken its name.
  bool is_name_of(const std::string& entry, int fd) const;

  // Opens a file without waiting for the other end of a FIFO. Returns an empty descriptor and leaves errno set if that
  // fails.
  Descriptor open_file(const std::string& entry, int flags, Links links = Links::kRefuse) const;
  // Opens a file for reading and writing, or creates it. As above.
  Descriptor open_file_or_create(const std::string& entry, mode_t mode) const;
  // Creates a file that must not exist, readable and writable.
  Descriptor create(const std::string& entry, mode_t mode) const;
  std::unique_ptr<File> create_file(const std::string& entry, std::string_view io_path) const;
  // Creates a file that has no name until give_name, so that no kill leaves it behind. Returns an empty descriptor
  // where the file system lacks such files, or could not name them later.
  Descriptor create_without_name(mode_t mode) const;
  // Gives such a file a name that nothing has. Returns false and leaves errno set if that fails.
  bool give_name(int fd, const std::string& entry) const;
  // Returns whether give_name would succeed, by trying it: a security policy may forbid links where files without a
  // name exist. The file is lost.
  bool can_give_name(int fd, const std::string& entry) const;
  // Opens a regular file. Throws TZE-ENV-001 for anything else.
  std::unique_ptr<File> read_file(const std::string& entry, std::string_view io_path) const;
  // Asks the system to drop what it has cached of a synced file, so that the next read comes from the device.
  void forget_cached(const std::string& entry) const;

  // Returns false if there is such a directory, or a symbolic link to one.
  bool make_directory(const std::string& entry, mode_t mode = 0777) const;
  Directory open_directory(const std::string& entry) const;
  // Opens and locks a directory until the result is destroyed or this process ends. The lock is advisory and moves with
  // the directory when that is renamed. Returns nothing if another holder excludes this one, if the directory lost its
  // name before it was locked, or if this user may not open it.
  // Anyone who may read a directory can lock it, so what must not be stopped is closed to others before.
  std::optional<Directory> lock_directory(const std::string& entry, Lock lock) const;
  // The same with a shared lock, but where another holder excludes it, opens the directory without one.
  std::optional<Directory> lock_or_open_directory(const std::string& entry) const;
  // Lets its owner alone open this directory. Returns false where permissions cannot be changed.
  bool close_to_others() const;
  // Gives it the permissions of a directory in it. The same.
  bool give_mode_of(const std::string& entry) const;
  bool is_open_to_others(const std::string& entry) const;

  // Replaces what has the new name. It may be in another directory.
  void rename(const std::string& from, const std::string& to) const { rename(from, *this, to); }
  void rename(const std::string& from, const Directory& to_directory, const std::string& to) const;
  void rename_no_replace(const std::string& from, const std::string& to) const;
  // The same, but the file never has both names, not even if the process dies. Without support by the file system, what
  // another program creates as `to` in the moment of the call is replaced.
  void rename_file_no_replace(const std::string& from, const std::string& to) const;
  // These return false and leave errno set instead.
  bool try_rename(const std::string& from, const std::string& to) const { return try_rename(from, *this, to); }
  bool try_rename(const std::string& from, const Directory& to_directory, const std::string& to) const;
  bool try_rename_no_replace(const std::string& from, const std::string& to) const;  // EOPNOTSUPP: cannot be promised
  bool try_exchange(const std::string& a, const std::string& b) const;               // swaps two names in one step
  bool try_link(const std::string& from, const std::string& to) const;

  // Return whether there was an entry to remove.
  bool remove_file(const std::string& entry) const;
  bool remove_directory(const std::string& entry) const;  // which is empty
  // Makes created, renamed and removed names durable. Returns false where that is unsupported: on file systems
  // without fsync of directories (FUSE, 9p, some NFS), and in a directory that this process may not read.
  [[nodiscard]] bool sync() const;
  // Throws TZE-AVL-001 where sync returns false.
  void require_sync() const;

 private:
  Directory(std::string name, Descriptor descriptor) : name_(std::move(name)), descriptor_(std::move(descriptor)) {}
  Descriptor open_regular(const std::string& entry) const;
  std::optional<Directory> open_lockable(const std::string& entry) const;
  bool gets_lock(Lock lock);
  bool change_mode(mode_t mode) const;

  std::string name_;
  Descriptor descriptor_;
  FileLock lock_;
};

// Returns the part of a file's name that Directory::of leaves.
std::string name_in_directory(const std::string& file_name);

// Returns whether an error means that the kernel or the file system lacks the call or its flag.
bool is_unsupported(int error_number);
// The same for hard links.
bool is_link_unsupported(int error_number);

// Reads a whole file. Throws TZE-ENV-006 if it has more than bytes_max, before it allocates memory.
std::string read_small_file(const Directory& directory, const std::string& entry, std::uint64_t bytes_max);
// Creates a file with this content and syncs the content, but not the name.
void write_small_file(const Directory& directory, const std::string& entry, std::string_view content);

}  // namespace tzmark
