// Prints to standard output and stderr, which may be closed, full or non-blocking.
//
// Thread-safety: open_standard_streams belongs to the beginning of main; the rest may be called from any thread.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "runner/errors.h"

namespace tzmark::conformance {

// Opens descriptors 0 to 2 if they are closed, so that no other file gets these numbers. Writing to a standard output
// that was closed fails. Throws EnvironmentError.
void open_standard_streams();

// Makes text from files and adapters safe for a terminal: control and format characters, and bytes that are not UTF-8,
// become escapes such as \x1e. Line ends and tabs stay.
std::string escape_for_terminal(std::string_view text);

// Writes text for people to standard output, escaped and whole. Throws EnvironmentError if it cannot be written.
void print_text(std::string_view text);
template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  print_text(fmt::format(format, std::forward<Values>(values)...));
}

// Writes to stderr without escapes. Never fails, and never ends the program.
void print_to_stderr(std::string_view text) noexcept;
// Writes "tzmark-conform: ..." there, as one line.
void tell(std::string_view line) noexcept;

// For destructors: calls clean_up and prints what it throws.
template <typename Action>
void tell_failure_of(const Action& clean_up) {
  try {
    clean_up();
  } catch (const EnvironmentError& error) {
    tell(error.what());
  }
}

}  // namespace tzmark::conformance
