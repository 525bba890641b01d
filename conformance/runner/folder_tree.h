// Measures a folder in which an implementation under test may have written anything. Neither follows links, nor runs
// out of descriptors or stack, however deep the folders are nested.
//
// Thread-safety: one folder belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>

namespace tzmark::conformance {

// Deeper folders count as too much.
inline constexpr std::size_t kFolderDepthMax = 64;
inline constexpr std::uint64_t kTooDeep = std::numeric_limits<std::uint64_t>::max();

// Bytes on disk of everything in the folder, each file and folder 4 KiB at least. Stops counting above enough_bytes.
// Makes folders listable that forbid it to their owner. kTooDeep if folders are nested deeper than kFolderDepthMax, or
// cannot be listed.
std::uint64_t disk_bytes_below(const std::filesystem::path& folder, std::uint64_t enough_bytes);

// Writes back the large files in the folder that seem to take less than their size: while ext4 allocates blocks, for a
// moment neither the waiting nor the allocated ones count. Skips what cannot be opened, links, and folders that are
// nested too deep.
void settle_files_below(const std::filesystem::path& folder);

}  // namespace tzmark::conformance
