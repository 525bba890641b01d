// Reads whole files into memory, and writes them.
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

// Throws EnvironmentError if path is not a regular file (or a link to one), cannot be read, or is larger than
// size_max_bytes. Never waits for another process.
std::vector<std::byte> read_file(const std::filesystem::path& path,
                                 std::uint64_t size_max_bytes = std::numeric_limits<std::uint64_t>::max());

// Throws EnvironmentError if the file cannot be written.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tzmark::conformance
