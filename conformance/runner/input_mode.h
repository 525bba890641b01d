// Input modes: how a file is presented to a reader. The answer must be the same in all of them.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/protocol.h"

namespace tzmark::conformance {

enum class InputMode {
  kFile,        // a regular file, and for stream the whole of it on stdin
  kPipe,        // FILE is a FIFO
  kShortReads,  // reads return fewer bytes than requested, and stdin delivers few at a time
  kReadOnly,    // on a read-only mount
  kOffset,      // the file is a range of a larger FILE
  kHttp,        // FILE is a URL, of a server that may lack ranges and send small pieces
  kHttpFaults,  // FILE is a URL, of a server that also fails at first
};
inline constexpr std::size_t kInputModeCount = 7;

// The name in options and reports, such as "short-reads".
std::string_view name_of(InputMode mode);

// All names, separated by commas.
std::string input_mode_names();

// Parses names separated by commas. The result has each mode once, in the order above. Throws UsageError for other
// words.
std::vector<InputMode> parse_input_modes(const std::string& names);

constexpr bool is_served(InputMode mode) { return mode == InputMode::kHttp || mode == InputMode::kHttpFaults; }

// The modes that a profile may list, in which only those are asked that do.
std::set<std::string> claimed_input_modes();

// The commands to ask a reader of this profile in an input mode; none if it does not support the mode.
std::vector<Command> commands_in(InputMode mode, const Profile& profile);

// The reason why commands_in is empty.
std::string absence(InputMode mode);

// The one of several input modes in which to ask about this file, if the profile supports any: always the same one for
// a file, and about as often each.
std::optional<InputMode> sample(const std::vector<InputMode>& modes, const Profile& profile, std::string_view sha256);

// "verify", and for input modes other than the plain file "verify (pipe)".
std::string label(Command command, InputMode mode);

}  // namespace tzmark::conformance
