// What all command lines of this project share: they reject empty values, and name unknown words.
//
// A shell expands an unset variable to an empty word. If that counted as an option that is not given, it would turn off
// encryption. So a value must not be empty, unless its option permits it.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tzmark {

// Permits an empty value, such as the name of a tensor.
void accept_empty(CLI::Option& option);

// The outcome of parsing.
struct Parsed {
  bool run = false;     // parsed, and the callbacks have run
  std::string help;     // otherwise: the requested text, such as that of --help, for stdout
  std::string problem;  // or the mistake in the command line, on one line
};

// Parses the arguments and runs the callbacks, whose exceptions pass through.
Parsed parse(CLI::App& app, int argc, const char* const* argv);

}  // namespace tzmark
