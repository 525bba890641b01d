// Names of the files and directories of checkpoints.
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
inline constexpr std::string_view kUnfinishedName = "tzmark-unfinished";  // checkpoint/unfinished.h
inline constexpr std::string_view kModel = "model";
inline constexpr std::string_view kOptimizer = "optimizer";
inline constexpr std::string_view kTemporaryMark = ".tmp-";

// A name of a directory, split.
struct Place {
  std::string parent;  // "." if there is none
  std::string name;
};

// Returns NAME.tmp-ID.MARK. The mark is the CRC-64 of what precedes it, in 16 hex digits: directories that saves make
// carry it from the start, and names that people or other programs choose do not.
std::string temporary_name(const std::string& name, std::string_view id);

// Throws kUsage for names that a checkpoint must not have: "latest", and those of temporary directories.
Place place_of(const std::string& directory);

std::string rank_directory(std::uint32_t rank);  // "rank_3"
std::string new_save_id();
// Throws kUsage for a save id that SaveGroup does not allow.
void check_save_id(std::string_view id);
// Returns whether a name ends in .tmp-ANYTHING, with or without a mark.
bool is_temporary_name(std::string_view name);
// Returns whether it is a result of temporary_name.
bool is_marked_name(std::string_view name);
// Returns whether saves create files of this name in a checkpoint or, in_rank, in the directory of a rank.
bool is_own_file_name(std::string_view name, bool in_rank);
bool is_rank_directory_name(std::string_view name);

}  // namespace tzmark::checkpoint
