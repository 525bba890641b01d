// Checkpoints in a directory that has its final name from the start, where directories cannot be renamed.
//
// The file `tzmark-unfinished` in such a directory exists before any other and says which save made it. commit.json,
// written last, makes the checkpoint valid. Errors: those of Directory.
#pragma once

#include <cstdint>
#include <string>

#include "os/directory.h"

namespace tzmark::checkpoint {

// The state of a directory that is not under a temporary name.
enum class Marker : std::uint8_t {
  kNone,        // no marker that belongs to a directory of this name: an ordinary checkpoint, or no checkpoint
  kCommitted,   // the marker is still there, and commit.json is valid: the last step of a save is missing
  kUnfinished,  // a save or a deletion in progress, or one that died
};

// The result of removing what a dead save may have left.
enum class Removal : std::uint8_t { kNone, kDone, kLocked };  // there was nothing; removed; a process works on it

// Returns the content of the marker: the name and id of the save, with a mark.
std::string unfinished_text(const std::string& name, const std::string& save_id);

// Returns what the file contains; empty without one.
std::string read_unfinished(const Directory& directory);

Marker marker_of(const Directory& directory, const std::string& name);

// Returns whether the commit.json of a directory is there and correct in itself.
bool has_valid_commit(const Directory& directory);

// Removes an open checkpoint that cannot be renamed: the marker is there before commit.json goes, and goes last. A loss
// of power at any moment leaves a committed checkpoint, an unfinished one, or an empty directory.
// REQUIRES: it is locked and contains no foreign entry.
void remove_in_place(const Directory& parent, const Directory& directory, const std::string& name);

// Removes what a save or a deletion that died has left under this name. A checkpoint that is committed loses the marker
// only.
Removal clean_unfinished(const Directory& parent, const std::string& name);

}  // namespace tzmark::checkpoint
