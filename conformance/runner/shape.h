// The shapes in which a file is put before a reader. The answer has to be the same in all of them.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol.h"

namespace tzmark::conformance {

enum class Shape {
  kFile,        // a regular file, and for stream the whole of it on stdin
  kPipe,        // FILE is a FIFO
  kShortReads,  // reads give fewer bytes than are asked for, and stdin gets few at a time
  kReadOnly,    // on a mount that nobody can write to
  kOffset,      // FILE is larger, and the file of the format a part of it
};
inline constexpr std::size_t kShapeCount = 5;

// As options and reports spell it, "short-reads".
std::string_view name_of(Shape shape);

// Names with commas between them, in the order of the list above and each once. Throws UsageError for any other word.
std::vector<Shape> parse_shapes(const std::string& names);

// The commands that a reader of this profile is asked in a shape, in their order; none if it does not take part.
std::vector<Command> commands_in(Shape shape, const Profile& profile);

// Why commands_in is empty.
std::string absence(Shape shape);

// "verify", and for all shapes but the plain file "verify (pipe)".
std::string label(Command command, Shape shape);

}  // namespace tzmark::conformance
