// How the files and directories of checkpoints are called.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tzmark::checkpoint {

inline constexpr std::string_view kCommitName = "commit.json";
inline constexpr std::string_view kStateName = "training_state.json";
inline constexpr std::string_view kShardingName = "sharding_meta.json";
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kLatestName = "latest";
inline constexpr std::string_view kModel = "model";
inline constexpr std::string_view kOptimizer = "optimizer";
inline constexpr std::string_view kTemporaryMark = ".tmp-";

// A directory's own name and that of its parent.
struct Place {
  std::string parent;  // "." if the name has no directory
  std::string name;

  std::string directory() const { return parent + "/" + name; }
  std::string beside(std::string_view other) const { return parent + "/" + std::string(other); }
  // NAME.tmp-ID.MARK. The mark is the CRC-64 of what is before it, in 16 hex digits: what a save makes carries it from
  // the moment it exists, and names that other programs or people give do not.
  std::string temporary(std::string_view id) const;
};

// Throws kUsage for what no checkpoint may be called: "latest", and what looks like a temporary directory.
Place place_of(const std::string& directory);

std::string rank_directory(std::uint32_t rank);  // "rank_3"
std::string new_save_id();
// Throws kUsage for one that is not as SaveGroup says.
void check_save_id(std::string_view id);
// Whether it may not be a checkpoint's name: it ends in .tmp-ANYTHING, with or without a mark.
bool is_temporary_name(std::string_view name);
// Whether it is a temporary name that tzmark has given.
bool is_marked_name(std::string_view name);
// Whether a save makes files of this name in a checkpoint. in_rank: in the directory of a rank.
bool is_own_file_name(std::string_view name, bool in_rank);
bool is_rank_directory_name(std::string_view name);

}  // namespace tzmark::checkpoint
