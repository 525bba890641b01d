// Whole files: read into memory, where the content stays what it was, whatever becomes of the file, and written.
//
// Thread-safety: pure functions of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>
#include <vector>

namespace tzmark::conformance {

// Throws EnvironmentError if path is not a regular file (nor a link to one), cannot be read, or has more bytes than
// that. Never waits for another process.
std::vector<std::byte> read_file(const std::filesystem::path& path,
                                 std::uint64_t size_max_bytes = std::numeric_limits<std::uint64_t>::max());

// Throws EnvironmentError if the file cannot be written.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tzmark::conformance
