// Standard input, output and error of the programs of this project.
//
// Thread-safety: main calls open_standard_streams first; any thread may call the others.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tzmark {

// Opens placeholders for closed descriptors 0 to 2, so that no file opened later gets such a number and receives what
// is printed. Reading or writing a placeholder fails, except that text for a closed stderr is lost. Throws TZE-ENV-006
// if the system cannot open any.
void open_standard_streams();

// Writes all of the data to standard output, also if that is non-blocking. Throws TZE-ENV-003. If the reader of a pipe
// is gone, SIGPIPE ends the program.
void print(std::string_view text);
void print(std::span<const std::byte> bytes);

// Prints a table or report, and escapes what could control a terminal.
void print_lines(std::string_view text);

// Writes text to stderr. Never fails, and never ends the program: text that cannot be written is lost.
void print_to_stderr(std::string_view text) noexcept;
// Writes one line to stderr, and escapes what could control a terminal: "tzmark: FILE: error ...". Of a URL in it,
// user information and query are left out.
void tell(std::string_view line) noexcept;

}  // namespace tzmark
