// A file that is changed in place: locked against others who do the same, resized, and cut open to make room.
//
// The file is looked up once, and its directory is kept open: from then on nothing that takes the place of either is
// touched. The lock (flock, exclusive) is held while the object lives. It is advisory: it binds programs that ask for
// it. For one thread at a time. Errors: TZE-ENV rules; TZE-ENV-008 if another process holds the lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/paths.h"
#include "os/directory.h"

namespace tzmark {

// What tells a file from another that gets its name, and even its inode, after it: the time when it was created is part
// of it where the file system knows that. Device numbers are not: they change when a machine starts.
struct FileIdentity {
  std::uint64_t number = 0;  // the inode's: no other file of the file system has it now
  std::int64_t created_s = 0;
  std::uint32_t created_ns = 0;

  bool has_creation_time() const { return created_s != 0 || created_ns != 0; }
};

class InPlaceFile {
 public:
  // A symbolic link is followed, and what it leads to is locked.
  explicit InPlaceFile(const std::string& file_name);
  // Creates and locks an empty file, for its owner alone, next to another. Removes nothing if that fails.
  static InPlaceFile create_beside(const InPlaceFile& other, std::string name);

  const Directory& directory() const { return *directory_; }
  const std::shared_ptr<const Directory>& shared_directory() const { return directory_; }
  const std::string& name() const { return name_; }  // in the directory
  int get() const { return descriptor_.get(); }

  // A File of this very file.
  std::unique_ptr<File> open(std::string_view io_path = "auto", OpenMode mode = OpenMode::kModify) const;

  std::uint64_t size() const;
  FileIdentity identity() const;
  std::uint64_t name_count() const;  // hard links
  std::uint32_t owner() const;
  // Whether the name is still that of this file, and not of one that has taken its place.
  bool is_named() const;
  // Throws TZE-ENV-008 unless it is.
  void require_named() const;
  void resize(std::uint64_t bytes);
  // Makes room: what was at offset is then at offset + bytes, and zeros are between. Returns false, having changed
  // nothing, if this file system cannot do that or not at this offset. If it throws, the file may have grown, and some
  // of what was behind the offset may have moved.
  bool insert(std::uint64_t offset, std::uint64_t bytes);
  // Gives a file that this process has created, and for itself alone, the permissions of this one, its access control
  // list included, as far as mode_max has them, and its owner and group. Returns false if some of that cannot be given:
  // the call is not allowed it, or they have no number in its user namespace. Nobody gets a permission whom this file
  // refuses.
  bool give_attributes_to(int fd, unsigned mode_max = 07777) const;
  // Takes the name of the other file, and so its place. REQUIRES: it was created beside it.
  void replace(const InPlaceFile& other);

 private:
  InPlaceFile(std::shared_ptr<const Directory> directory, std::string directory_name, std::string name,
              Descriptor descriptor);

  std::shared_ptr<const Directory> directory_;
  std::string directory_name_;  // with its last slash, for I/O paths that open a file twice
  std::string name_;
  Descriptor descriptor_;
};

// The file that a symbolic link leads to: what is beside it is beside all symbolic links to it.
std::string resolved_file_name(const std::string& file_name);

}  // namespace tzmark
