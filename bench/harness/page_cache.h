// The state of a file in the page cache: seen and made.
//
// A share is that of the file's pages, 0 to 1, as mincore shows it; 0 for an empty file. On file systems that keep
// their data in the page cache alone (tmpfs) nothing can be dropped, and the returned shares say so.
// Thread-safe. Errors: TZE-ENV rules; TZE-AVL-001 where the kernel does not tell this user (mincore answers only to
// who owns the file or may write it, and takes every page for resident otherwise).
#pragma once

#include <string>

namespace tzmark::bench {

double resident_share(const std::string& file_name);

// Makes the file durable, since dirty pages stay, and asks the kernel to forget its pages. Returns the share that is
// still there: pages that are mapped or in use elsewhere.
double drop(const std::string& file_name);

// Reads the whole file once. Returns the share that is there then, less than 1 where memory is short.
double warm(const std::string& file_name);

}  // namespace tzmark::bench
