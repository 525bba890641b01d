// Reads whole files into memory, and writes them.
//
// Thread-safety: pure functions of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tzmark::conformance {

// Throws EnvironmentError if path is not a regular file (a link to one is not), cannot be read, or is larger than
// size_max_bytes. Never waits for another process.
std::vector<std::byte> read_file(const std::filesystem::path& path,
                                 std::uint64_t size_max_bytes = std::numeric_limits<std::uint64_t>::max());

// read_file for a file that the user named, which may be a link.
std::vector<std::byte> read_named_file(const std::filesystem::path& path,
                                       std::uint64_t size_max_bytes = std::numeric_limits<std::uint64_t>::max());

// Throws EnvironmentError if write_output_file could not write the file, so that a run is not lost that would end in
// one. Creates nothing.
void check_output_file(const std::filesystem::path& path);
// The same for several, of which empty names count for nothing. Throws UsageError if one of them is an input or
// another output, by whatever name.
void check_output_files(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

// The same for a directory that need not exist yet, nor those above it.
void check_output_directory(const std::filesystem::path& path);

// Writes a new file in a directory of this program, in place of an old one. Throws EnvironmentError if it cannot be
// written.
void write_file(const std::filesystem::path& path, std::string_view content);
// Gives such a file another content, and leaves its inode. Returns false if what has the name now is not a file that
// can be written and read, and that has no other name. Throws EnvironmentError if it cannot be written whole.
bool overwrite_file(const std::filesystem::path& path, std::string_view content);
// Writes a file that the user named for a result, by the rules of program/output_file.h. Throws EnvironmentError.
void write_output_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tzmark::conformance
