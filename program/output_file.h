// Files that a user names for a result: --json, --html, --junit, -o.
//
// What has the name is replaced at once by a new file: a random name, O_EXCL, rename. A link is replaced, and never
// written through. What cannot be replaced is written to only if that is safe and does not wait for ever:
//   - /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N: the open descriptor;
//   - a character device, such as /dev/null;
//   - a FIFO of this user or root, which another process reads within 10 s.
// Anything else is refused: directories, sockets, block devices, FIFOs of other users, links to what is not a file.
// reports/common/output_file.py has the same rules.
//
// Code of programs, and of no library: it links nothing else of this project.
// Thread-safety: any thread. Errors: std::system_error, whose text begins with the name.
#pragma once

#include <string>
#include <string_view>

namespace tzmark {

// Throws if write_output_file could not write the file now. Creates nothing.
void check_output_file(const std::string& name);

// Writes all of the content. The new file has the mode of a file of this user that it replaces, and of another one no
// more than that. Old content is replaced only by content that is durable.
void write_output_file(const std::string& name, std::string_view content);

}  // namespace tzmark
