// What every command line of this project has in common: no value is empty, and unknown words are named.
//
// A shell makes an empty word of a variable that is not set. Taken for an option that was not given, it turns
// encryption off; so a value that is given is never empty, unless its option says that it may be.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tzmark {

// For names of tensors, and whatever else may be empty.
void accept_empty(CLI::Option& option);

// What came of a command line.
struct Parsed {
  bool run = false;     // the callbacks have run, and all is well
  std::string help;     // otherwise: what was asked for, such as --help, for stdout
  std::string problem;  // or what is wrong with the command line, on one line
};

// Parses the arguments and runs the callbacks, whose exceptions pass through.
Parsed parse(CLI::App& app, int argc, const char* const* argv);

}  // namespace tzmark
