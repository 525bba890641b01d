// Where the running program is installed: its siblings and its data are found relative to it, so that an installation
// can be moved.
#pragma once

#include <filesystem>

namespace tzmark {

// Returns the directory that contains bin, libexec/tzmark and share/tzmark: that of an installation, of a build
// directory, or of a copy. It is derived from the real path of the running program, which may be a link to it.
std::filesystem::path installation_prefix();

// Returns the directory of programs that tzmark runs, and that are not commands for people.
std::filesystem::path sibling_directory();

// Returns the directory of data: corpus, reports, drivers.
std::filesystem::path data_directory();

}  // namespace tzmark
