// The commands and options of a program as JSON, from which manual pages and completions of shells are made
// (scripts/shell-files). Not for people, and in no help.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace tzmark {

// Returns the tree if it is all that the arguments ask for (`PROGRAM --option-tree`). Call it before the arguments are
// parsed. A command has name, description, footer, options and commands; an option has names, value (its type as in the
// help; empty for a flag), values_max (of one use; -1 = no limit), text, required and group.
std::optional<std::string> asked_option_tree(const CLI::App& app, int argc, const char* const* argv);

}  // namespace tzmark
