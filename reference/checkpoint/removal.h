// Deleting what saves have made, and nothing else.
//
// Pure but for the directory that they are given. Errors: what the directory's calls throw.
#pragma once

#include <optional>
#include <string>

#include "tzmark/file_system.h"

namespace tzmark::checkpoint {

// The first entry, as "rank_0/notes.txt", that no save makes; nothing if there is none.
std::optional<std::string> foreign_entry(OpenDirectory& directory);

// Removes what is in a checkpoint. Throws TZE-ENV-003 before it removes anything if there is a foreign entry, and
// leaves alone one that appears meanwhile.
void remove_content(OpenDirectory& directory);
// The same for the directory of a rank, with all its content; one that does not exist is fine.
void remove_rank(OpenDirectory& checkpoint, const std::string& name);

}  // namespace tzmark::checkpoint
