// What a program of this project does with its descriptors 0, 1 and 2.
//
// Thread-safety: open_standard_streams belongs to the beginning of main; the rest may be called from any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tzmark {

// Fills descriptors 0 to 2 where they are closed, so that no file that is opened later gets such a number and with it
// what is printed. Reading or writing a filled one fails, except that text for a closed stderr is lost. Throws
// TZE-ENV-006 if the system has nothing to fill them with.
void open_standard_streams();

// Writes data to standard output, whole, waiting where that does not block. Throws TZE-ENV-003. If the reader of a pipe
// has gone, SIGPIPE ends the program.
void print(std::string_view text);
void print(std::span<const std::byte> bytes);

// The same for a table or report, in whose lines names from outside cannot control a terminal.
void print_lines(std::string_view text);

// Writes text for a person to stderr. Never fails, and never ends the program: where nobody can read it, it is lost.
void print_to_stderr(std::string_view text) noexcept;
// The same for one line, in which names from outside cannot control a terminal: "tzmark: FILE: error ...".
void tell(std::string_view line) noexcept;

}  // namespace tzmark
