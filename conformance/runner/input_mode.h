// The input modes in which a file is put before a reader. The answer has to be the same in all of them.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/protocol.h"

namespace tzmark::conformance {

enum class InputMode {
  kFile,        // a regular file, and for stream the whole of it on stdin
  kPipe,        // FILE is a FIFO
  kShortReads,  // reads give fewer bytes than are asked for, and stdin gets few at a time
  kReadOnly,    // on a mount that nobody can write to
  kOffset,      // FILE is larger, and the file of the format a part of it
};
inline constexpr std::size_t kInputModeCount = 5;

// As options and reports spell it, "short-reads".
std::string_view name_of(InputMode mode);

// Names with commas between them, in the order of the list above and each once. Throws UsageError for any other word.
std::vector<InputMode> parse_input_modes(const std::string& names);

// The commands that a reader of this profile is asked in an input mode, in their order; none if it does not take part.
std::vector<Command> commands_in(InputMode mode, const Profile& profile);

// Why commands_in is empty.
std::string absence(InputMode mode);

// "verify", and for all input modes but the plain file "verify (pipe)".
std::string label(Command command, InputMode mode);

}  // namespace tzmark::conformance
