// For tests: what a new process prints, since libraries are loaded once per process.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace tzmark::test {

// A word that the shell takes as it is, whatever is in it.
inline std::string shell_word(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Runs a program with some variables added to its environment, each as "NAME=value", and returns the line it prints.
inline std::string line_of(const std::string& program, std::initializer_list<std::string> variables) {
  std::string command = "env";
  for (const std::string& variable : variables) command += " " + shell_word(variable);
  std::FILE* const pipe = ::popen((command + " " + shell_word(program)).c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  if (::pclose(pipe) != 0 || text.empty()) throw std::runtime_error(program + " failed");
  text.pop_back();  // the end of the line
  return text;
}

}  // namespace tzmark::test
