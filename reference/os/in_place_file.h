// A file that is changed in place: locked, resized, and extended in the middle.
//
// The file is looked up once and its directory stays open, so that a file or directory that takes one of their names
// later is not touched. The object holds an exclusive advisory lock (flock). For one thread at a time.
// Errors: TZE-ENV rules; TZE-ENV-008 if another process holds the lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/paths.h"
#include "os/directory.h"

namespace tzmark {

// Distinguishes a file from one that gets its name, or even its inode, later. Contains the creation time where the file
// system stores it, and no device number: that changes when a machine boots.
struct FileIdentity {
  std::uint64_t number = 0;  // of the inode
  std::int64_t created_s = 0;
  std::uint32_t created_ns = 0;

  bool has_creation_time() const { return created_s != 0 || created_ns != 0; }
};

class InPlaceFile {
 public:
  // Follows a symbolic link, unless it is one of LinksOfOthers, and locks its target.
  explicit InPlaceFile(const std::string& file_name);
  // Creates and locks an empty file with access for its owner only. Removes nothing if that fails.
  static InPlaceFile create_beside(const InPlaceFile& other, std::string name);

  const Directory& directory() const { return *directory_; }
  const std::shared_ptr<const Directory>& shared_directory() const { return directory_; }
  const std::string& name() const { return name_; }  // in the directory
  int get() const { return descriptor_.get(); }

  // Opens this file again, and never one that has taken its name.
  std::unique_ptr<File> open(std::string_view io_path = "auto", OpenMode mode = OpenMode::kModify) const;

  std::uint64_t size() const;
  FileIdentity identity() const;
  std::uint64_t name_count() const;  // hard links
  std::uint32_t owner() const;
  // Returns whether the name still belongs to this file.
  bool is_named() const;
  // Throws TZE-ENV-008 if it does not.
  void require_named() const;
  void resize(std::uint64_t bytes);
  // Inserts zeros at offset and moves what follows. Returns false and changes nothing if the file system cannot do that
  // at all, or not at this offset. If it throws, the file may have grown, and part of its content may have moved.
  bool insert(std::uint64_t offset, std::uint64_t bytes);
  // Copies owner, group, mode and ACL to a file that this process has created with access for itself only, limited to
  // mode_max. Returns false if some of that is not permitted; no user gets access that this file denies.
  bool give_attributes_to(int fd, unsigned mode_max = 07777) const;
  // Replaces the other file. REQUIRES: created by create_beside.
  void replace(const InPlaceFile& other);

 private:
  InPlaceFile(std::shared_ptr<const Directory> directory, std::string name, Descriptor descriptor);

  std::shared_ptr<const Directory> directory_;
  std::string name_;
  Descriptor descriptor_;
};

// Links that another user, who is not the owner of the directory either, has put into a directory such as /tmp, which
// has the sticky bit and is open to all. What they lead to must not be changed; kRefuse throws TZE-ENV-001.
enum class LinksOfOthers : std::uint8_t { kFollow, kRefuse };

// Returns the target of a symbolic link; other names as they are.
std::string resolved_file_name(const std::string& file_name, LinksOfOthers of_others = LinksOfOthers::kFollow);

}  // namespace tzmark
