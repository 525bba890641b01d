// What tzmark-conform prints, and where: standard output and stderr as they come, closed, full or non-blocking.
//
// Thread-safety: open_standard_streams belongs to the beginning of main; the rest may be called from any thread.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace tzmark::conformance {

// Fills descriptors 0 to 2 where they are closed, so that no file that is opened later gets such a number. What is
// written to a filled standard output fails. Throws EnvironmentError.
void open_standard_streams();

// Text of a hostile file or adapter made safe for a terminal: control and format characters, and bytes that are not
// UTF-8, become escapes like \x1e. Ends of lines and tabs stay.
std::string escape_for_terminal(std::string_view text);

// Writes text for people to standard output, escaped and whole. Throws EnvironmentError if it cannot be written.
void print_text(std::string_view text);
template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  print_text(fmt::format(format, std::forward<Values>(values)...));
}

// Writes to stderr as it is. Never fails, and never ends the program.
void print_to_stderr(std::string_view text) noexcept;
// Writes "tzmark-conform: ..." there, as one line.
void tell(std::string_view line) noexcept;

}  // namespace tzmark::conformance
