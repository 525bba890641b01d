// What a program does to directories, as an interface: the system's own, and in tests ones that fail or lose power.
//
// Everything that changes a directory, or makes something durable, is one call here, so that a test can meet each of
// them. Content moves through the File that a call hands out.
//
// Thread-safety: any thread, any time. Names are those of the system, absolute or relative to the current directory.
// Errors: TZE-ENV rules; TZE-AVL-001 for what the file system below cannot do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/io.h"

namespace tzmark {

enum class EntryKind : std::uint8_t { kNone, kFile, kDirectory, kOther };

struct DirectoryEntry {
  std::string name;  // without that of the directory
  EntryKind kind;
};

// An open directory. Its calls concern the directory that was opened, whatever has its name by now, and follow no
// symbolic link. name: of one entry, without a slash.
class OpenDirectory {
 public:
  virtual ~OpenDirectory() = default;
  OpenDirectory(const OpenDirectory&) = delete;
  OpenDirectory& operator=(const OpenDirectory&) = delete;

  // What it was opened by, for messages.
  virtual const std::string& name() const = 0;

  virtual std::vector<DirectoryEntry> list() = 0;  // sorted
  virtual EntryKind kind(const std::string& name) = 0;
  // Throws TZE-ENV-001 if the entry is not a directory.
  virtual std::unique_ptr<OpenDirectory> open_directory(const std::string& name) = 0;
  // Throws TZE-ENV-001 if the entry is not a regular file; never waits for the writer of a FIFO. io_path: as for
  // open_file of io.h.
  virtual std::unique_ptr<File> read_file(const std::string& name, std::string_view io_path) = 0;
  // Forgets what is cached of a file that is durable, so that the next read comes from the device. As far as the system
  // does that; a memory file system cannot.
  virtual void forget_cached(const std::string& name) = 0;
  virtual void remove_file(const std::string& name) = 0;
  virtual void remove_directory(const std::string& name) = 0;  // which is empty

 protected:
  OpenDirectory() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // The file must not exist. io_path: as for open_file of io.h.
  virtual std::unique_ptr<File> create_file(const std::string& name, std::string_view io_path) = 0;

  // Returns false if there is a directory of that name already.
  virtual bool make_directory(const std::string& name) = 0;
  // Returns when the names in the directory, as they are now, would survive a loss of power.
  virtual void sync_directory(const std::string& name) = 0;
  // Both are in the same directory. Fails if there is a file or a directory with anything in it under the new name.
  virtual void rename_directory(const std::string& from, const std::string& to) = 0;
  // The file under the new name, if there is one, is gone at the same moment. It may come from another directory.
  virtual void replace_file(const std::string& from, const std::string& to) = 0;
  // Each has the other's name, at one moment.
  virtual void exchange(const std::string& a, const std::string& b) = 0;
  virtual void remove_directory(const std::string& name) = 0;  // which is empty

  // Follows no symbolic link: that is kOther.
  virtual EntryKind kind(const std::string& name) = 0;
  // name may be a symbolic link to the directory.
  virtual std::unique_ptr<OpenDirectory> open_directory(const std::string& name) = 0;

  // Opens a directory and locks it until the result is destroyed or the process ends, however that ends. The lock binds
  // those who ask for it, and stays with the directory when that is renamed. Any number of holders may share the first;
  // the second excludes all others. Both return nothing if the lock is held elsewhere, or if the directory has lost its
  // name before it was locked.
  virtual std::unique_ptr<OpenDirectory> lock_shared(const std::string& name) = 0;
  virtual std::unique_ptr<OpenDirectory> lock_alone(const std::string& name) = 0;

 protected:
  FileSystem() = default;
};

// The one of this machine. It has no state: all of them are alike.
std::shared_ptr<FileSystem> system_file_system();

// All of a file that is small. Throws TZE-ENV-006 for one of more than bytes_max, before memory is allocated for it.
std::string read_small_file(OpenDirectory& directory, const std::string& name, std::uint64_t bytes_max);

// A new file of this content, durable but for its name.
void write_small_file(FileSystem& files, const std::string& name, std::string_view content);

}  // namespace tzmark
