// What both benchmark programs do with their command line, the terminal and their result file.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::bench {

// Parses the command line, runs action if it asks for a run, and reports an error on one line of stderr. Returns the
// exit status: what action returns, 2 for wrong usage, 3 if the environment failed, 4 if something is not available.
int run_program(CLI::App& app, const std::vector<std::string>& command, const std::function<int()>& action);

// Shows what is measured next on one line of the terminal, and removes that line when destroyed. Without a terminal
// nothing is shown unless forced.
class RoundProgress {
 public:
  explicit RoundProgress(bool forced);
  ~RoundProgress();
  RoundProgress(const RoundProgress&) = delete;
  RoundProgress& operator=(const RoundProgress&) = delete;

  // Empty if nothing is shown.
  std::function<void(const std::string&)> callback() const;

 private:
  const bool is_shown_;
};

// Prints JSON as the benchmark programs write it: indented, with invalid UTF-8 replaced.
std::string json_text(const nlohmann::json& document);

// Throws kUsage if a file to be written is one of the others, which the command reads or writes, too.
void refuse_to_replace(const std::string& output, const std::vector<std::string>& others);

// Runs action; the message of an Error that it throws begins with the name of the file.
template <typename Action>
auto about_file(const std::string& file_name, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw Error(error.code(), file_name + ": " + error.message(), error.offset());
  }
}

// A file of results. Created before measuring, so that an unwritable name fails early; errors begin with its name.
class ResultFile {
 public:
  explicit ResultFile(std::string file_name);
  // Makes the file appear with this content.
  void commit(const std::string& text);
  void commit(const nlohmann::json& document) { commit(json_text(document)); }

 private:
  const std::string file_name_;
  std::unique_ptr<AtomicFile> file_;
};

}  // namespace tzmark::bench
