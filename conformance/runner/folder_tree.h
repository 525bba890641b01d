// A folder into which an implementation under test may have written whatever it likes: how much that is, and how it is
// removed. Neither follows a link, and neither runs out of descriptors or stack however deep the folders are nested.
//
// Thread-safety: one folder belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>

namespace tzmark::conformance {

// Folders nested deeper than this count as too much of everything.
inline constexpr std::size_t kFolderDepthMax = 64;
inline constexpr std::uint64_t kTooDeep = std::numeric_limits<std::uint64_t>::max();

// Bytes that what is in the folder takes on disk, each file and folder 4 KiB at least. Looking ends where they are more
// than enough_bytes. A folder that forbids its owner to list it is made to allow it. kTooDeep where folders are nested
// deeper than kFolderDepthMax, or cannot be listed all the same.
std::uint64_t disk_bytes_below(const std::filesystem::path& folder, std::uint64_t enough_bytes);

// Has the large files in the folder that seem to take less than their size written back, so that what they take is
// known: while ext4 gives a file its place on disk, for a moment neither what waited nor what is placed counts. What
// cannot be opened stays as it is, and so do links. Where folders are nested too deep, the rest stays as it is.
void settle_files_below(const std::filesystem::path& folder);

// Removes the folder and what is in it. Throws EnvironmentError, with the name that it failed on, also if that takes
// longer than elapsed_max: one that another process keeps filling has no end.
// REQUIRES: no other process changes what is in the folder.
void remove_folder(const std::filesystem::path& folder, std::chrono::nanoseconds elapsed_max = std::chrono::minutes(1));

}  // namespace tzmark::conformance
