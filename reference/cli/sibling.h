// The programs beside tzmark that do what is not about a single file, as git has them.
#pragma once

#include <string>

namespace tzmark::cli {

// Replaces this process by the program, named from the folder of this one. Throws TZE-AVL-001 if that fails.
[[noreturn]] void become_sibling(const std::string& program, char* const* arguments);

}  // namespace tzmark::cli
