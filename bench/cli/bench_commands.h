// The subcommands of tzmark-bench, one file each.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "program/standard_streams.h"

namespace tzmark::bench {

// Each adds its subcommand to app, whose callback runs it. command: the whole command line. status receives the exit
// status of a command that does not throw.
void add_bench(CLI::App& app, const std::vector<std::string>& command, int& status);
void add_compare(CLI::App& app, int& status);
void add_check(CLI::App& bench, const std::vector<std::string>& command, int& status);
void add_against(CLI::App& bench, const std::vector<std::string>& command, int& status);
void add_checkpoint(CLI::App& bench, const std::vector<std::string>& command, int& status);
void add_open(CLI::App& bench);
void add_remote(CLI::App& bench, const std::vector<std::string>& command);
void add_worker(CLI::App& bench);
void add_tune(CLI::App& app, const std::vector<std::string>& command);

// Each replaces this process by a Python program that parses its options itself. The interpreter is python3, or what
// the environment variable TZMARK_PYTHON names. Throws Error.
[[noreturn]] void become_history(std::vector<std::string> options);
[[noreturn]] void become_report(std::vector<std::string> options);
// Replaces this process by the program that measures with the ranks of MPI. Throws TZE-AVL-001 if it is not there.
[[noreturn]] void become_cluster(char* const* arguments);

// Accepts numbers of the range. CLI::Range accepts NaN, which is not below anything.
inline CLI::Validator within(double low, double high) {
  return {[low, high](const std::string& text) {
            double value = 0;
            const bool good = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
            return good ? std::string() : fmt::format("{} is not a number from {} to {}", text, low, high);
          },
          fmt::format("FLOAT in [{} - {}]", low, high)};
}

// Prints formatted lines to standard output.
template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  print_lines(fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace tzmark::bench
