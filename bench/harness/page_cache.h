// Reads and changes the state of a file in the page cache.
//
// A share is the part of the file's pages, 0 to 1, that mincore reports as resident; 0 for an empty file. On file
// systems that keep data in the page cache alone (tmpfs) nothing can be dropped, which the returned share shows.
// Thread-safe. Errors: TZE-ENV rules; TZE-AVL-001 if the file system maps no files, or if this user neither owns the
// file nor may write it, because mincore then reports every page as resident.
#pragma once

#include <string>

namespace tzmark::bench {

double resident_share(const std::string& file_name);

// Syncs the file, because dirty pages cannot be dropped, and drops its pages. Returns the share that remains: pages
// that are mapped or in use elsewhere.
double drop(const std::string& file_name);
// The same of an open file. REQUIRES: this user owns the file or may write it.
double drop_pages(int fd);

// Reads the whole file, unless all of it is resident. Returns the share that is then resident, less than 1 if memory is
// short.
double warm(const std::string& file_name);

// Drops the file's pages, and reads it. The kernel caches written data in blocks of about the size of each write, and
// copies small blocks more slowly; docs/benchmarking.md has commands and figures. Afterwards the blocks are those of
// the kernel's readahead, or as they were where nothing can be dropped. Returns the share that is then resident.
double warm_anew(const std::string& file_name);

}  // namespace tzmark::bench
