// Measures a directory in which an implementation under test may have written anything. Neither follows links, nor runs
// out of descriptors or stack, however deep the directories are nested.
//
// Thread-safety: one directory belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>

namespace tzmark::conformance {

// Deeper directories count as too much.
inline constexpr std::size_t kDirectoryDepthMax = 64;
inline constexpr std::uint64_t kTooDeep = std::numeric_limits<std::uint64_t>::max();

// Bytes on disk of everything in the directory, each file and directory 4 KiB at least. Stops counting above
// enough_bytes. Makes directories listable that forbid it to their owner. kTooDeep if directories are nested deeper
// than kDirectoryDepthMax, or cannot be listed.
std::uint64_t disk_bytes_below(const std::filesystem::path& directory, std::uint64_t enough_bytes);

// Writes back the large files in the directory that seem to take less than their size: while ext4 allocates blocks, for
// a moment neither the waiting nor the allocated ones count. Skips what cannot be opened, links, and directories that
// are nested too deep.
void settle_files_below(const std::filesystem::path& directory);

}  // namespace tzmark::conformance
