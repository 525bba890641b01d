// Finding out what a file system does with directories, by trying it with directories of our own: object stores cannot
// rename directories, and overlays cannot rename those of their lower layers.
//
// For one thread at a time. Errors: those of Directory.
#pragma once

#include <string>

#include "os/directory.h"

namespace tzmark::checkpoint {

// Returns whether an error of a rename means that this directory cannot be renamed, and not that a disk fails.
bool is_rename_refused(int error_number);

// Returns whether directories that saves make in parent can be renamed. name: of a checkpoint.
bool can_rename_directories(const Directory& parent, const std::string& name);

// Throws TZE-AVL-001 if a directory of this name cannot be renamed, though others can. If the file system cannot
// exchange names, that is not found out. REQUIRES: can_rename_directories.
void require_renameable(const Directory& parent, const std::string& name);

}  // namespace tzmark::checkpoint
