// Programs of their own that run commands of tzmark, as in git.
#pragma once

#include <string>

namespace tzmark::cli {

// Replaces this process by a program of libexec/tzmark. Throws TZE-AVL-001 on failure.
[[noreturn]] void become_sibling(const std::string& program, char* const* arguments);

}  // namespace tzmark::cli
