// Streams, which are read or written once from beginning to end: pipes, terminals and small files.
//
// Inherited descriptors may be non-blocking, as any process that shares them can set that at any time; these functions
// block anyway. Thread-safety: that of the system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "io/paths.h"

namespace tzmark {

// Opens a regular file, or a pipe by the name that a shell gives to <(command), such as /dev/fd/63. Refuses a pipe of
// any other name, and a terminal, with TZE-ENV-001, since reading might block forever.
Descriptor open_stream(const std::string& file_name);

// Returns the number of bytes read: at least 1 unless the stream is at its end. offset: of errors.
std::size_t read_stream(int fd, std::span<std::byte> out, std::optional<std::uint64_t> offset = {});
// Writes all bytes. Throws TZE-ENV-003.
void write_stream(int fd, std::span<const std::byte> bytes);

}  // namespace tzmark
