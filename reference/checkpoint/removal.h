// Deleting what saves have created, and nothing else. Errors: those of Directory.
#pragma once

#include <optional>
#include <string>

#include "os/directory.h"

namespace tzmark::checkpoint {

// Returns the first entry that no save creates, such as "rank_0/notes.txt", if there is one.
std::optional<std::string> foreign_entry(const Directory& directory);

// Empties the directory of a checkpoint. If it contains a foreign entry, throws TZE-ENV-003 and removes nothing. Keeps
// a foreign entry that appears later.
void remove_content(const Directory& directory);
// Removes the directory of a rank with its content, if it exists.
void remove_rank(const Directory& checkpoint, const std::string& name);

}  // namespace tzmark::checkpoint
