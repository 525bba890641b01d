// A private mapping of a whole file: memory whose pages are those of the page cache until they are written to.
//
// Writes change the memory alone, never the file. Renaming or deleting the file has no effect. If another process
// changes the file in place, the memory shows the change; if it truncates the file, access to a page beyond the new end
// raises SIGBUS, as does a page that the device fails to read. No library can prevent that without signal handlers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "tzmark/io.h"

namespace tzmark::py {

// For any number of threads.
class FileMapping {
 public:
  // version: what the file must be. Throws TZE-ENV-005 if it is another one, TZE-ENV-001 if it cannot be opened or
  // mapped, and TZE-AVL-001 if it is not a regular file.
  FileMapping(const std::string& file_name, const std::optional<FileVersion>& version);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tzmark::py
