// Streams: what is read or written once, from its beginning to its end, such as pipes, terminals and small files.
//
// Descriptors that were given to the program may be non-blocking, since whoever shares them can set that at any time.
// These functions wait then. Thread-safety: that of the system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "io/paths.h"

namespace tzmark {

// Opens a regular file, or a pipe under the name that a shell gives it for <(command), such as /dev/fd/63. A pipe under
// any other name is refused with TZE-ENV-001 like a terminal: nobody may ever write to it.
Descriptor open_stream(const std::string& file_name);

// Returns how many bytes were read: at least 1, unless the stream is at its end. offset: where errors are said to be.
std::size_t read_stream(int fd, std::span<std::byte> out, std::optional<std::uint64_t> offset = {});
// Writes all of it. Throws TZE-ENV-003.
void write_stream(int fd, std::span<const std::byte> bytes);

}  // namespace tzmark
