// Splits an adapter's command into words, as a POSIX shell would, without running a shell, and puts words together.
//
// Thread-safety: reads the process environment for variables; safe while no thread changes it.
#pragma once

#include <string>
#include <vector>

namespace tzmark::conformance {

// Quotes, backslashes, variables, ~ and patterns mean what they mean to a shell. Command substitution, pipes,
// redirections and undefined variables are refused: throws UsageError, as it does for a command without words.
std::vector<std::string> split_command(const std::string& command);

// A line that a shell splits into exactly these words.
std::string join_command(const std::vector<std::string>& words);

}  // namespace tzmark::conformance
