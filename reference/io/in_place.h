// A file that is changed in place: locked against others who do the same, resized, and cut open to make room.
//
// The lock (flock, exclusive) is held while the object lives. It is advisory: it binds programs that ask for it.
// Bytes are read and written through a File that is opened by the same name; both see the same content.
// For one thread at a time. Errors: TZE-ENV rules; TZE-ENV-008 if another process holds the lock.
#pragma once

#include <cstdint>
#include <string>

#include "io/paths.h"

namespace tzmark {

class InPlaceFile {
 public:
  explicit InPlaceFile(const std::string& file_name);

  std::uint64_t size() const;
  std::uint64_t file_number() const;  // the inode's: no other file of the file system has it
  std::uint64_t name_count() const;   // hard links
  // Whether the name still leads to this file, and not to one that has taken its place.
  bool is_named(const std::string& file_name) const;
  void resize(std::uint64_t bytes);
  // Makes room: what was at offset is then at offset + bytes, and zeros are between. Returns false, having changed
  // nothing, if this file system cannot do that or not at this offset.
  bool insert(std::uint64_t offset, std::uint64_t bytes);
  // The permissions of another file, and its owner if that is allowed.
  void take_attributes_of(const InPlaceFile& other);

 private:
  Descriptor descriptor_;
};

// Makes names in the directory of a file durable: that it was created, renamed or removed.
void sync_directory_of(const std::string& file_name);

}  // namespace tzmark
