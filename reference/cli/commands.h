// The subcommands of tzmark, and what they share. Each command has a file of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "bytes/utf8.h"
#include "tzmark/crypto.h"
#include "tzmark/edit.h"
#include "tzmark/error.h"
#include "tzmark/reader.h"
#include "tzmark/safetensors.h"

namespace tzmark::cli {

class ProgressLine;

// Each adds its subcommand to app; the command runs as the subcommand's callback.
void add_append(CLI::App& app);
void add_edit(CLI::App& app);
void add_inspect(CLI::App& app);
void add_dump(CLI::App& app);
void add_verify(CLI::App& app);
void add_convert(CLI::App& app);
void add_extract(CLI::App& app);
// arguments: the whole command line, for the program that takes over from this one under MPI.
void add_checkpoint(CLI::App& app, char** arguments);

// An error and the file that it is about.
struct FileError {
  std::string file_name;
  Error error;
};

// Runs action; an Error in it is about that file.
template <typename Action>
auto about(const std::string& file_name, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw FileError{file_name, error};
  }
}

// The four options of which at most one gives a key. What is given and empty has been refused by then.
struct KeyOptions {
  std::optional<std::string> key_file, key_hex, passphrase_file, passphrase;

  struct Summaries {
    std::string key_file, passphrase_file;
  };
  // prefix: what the names of the options begin with, "" or "encrypt-".
  void add_to(CLI::App& command, const std::string& prefix, const Summaries& summaries);
  // The key, if one is given. Throws what key_from_file and its like do.
  std::optional<KeySource> source() const;
};

// The options of a command that opens a file: which one, through which I/O path, with which key. Files whose names say
// so are safetensors.
struct InputOptions {
  std::string file_name;
  std::string data_file_name;
  std::string io_path = "auto";
  unsigned threads = 0;
  bool progress = false;
  KeyOptions key_options;
  std::string safetensors_profile = "spec";

  enum class Keys { kNone, kAccepted };
  void add_to(CLI::App& command, Keys keys = Keys::kAccepted);
  // Where FILE is something else.
  void add_to(CLI::App& command, Keys keys, const std::string& positional, const std::string& description,
              bool required);

  // Parts of that, for a command that takes only them.
  void add_io_to(CLI::App& command);
  void add_keys_to(CLI::App& command);

  bool is_safetensors() const;
  SafetensorsReader open_safetensors(ProgressLine* line = nullptr) const;
  ReadOptions read_options() const;
  // Reading is shown on the line, if there is one.
  Reader open(ProgressLine* line = nullptr) const;
};

// Says on stderr that a file, which was copied to grow, could not keep its owner or group.
void note_lost_owner(const std::string& file_name, const Growth& growth);

// NAME as people write it: a plain name, or a path as a JSON array.
Path parse_path(const std::string& name);

// Writes to standard output, whole or not at all an error: a reader that closed the pipe early ends the program
// quietly.
void print(std::string_view text);
void write_stdout(std::span<const std::byte> bytes);

// "1.5 GiB", for people.
std::string human_bytes(std::uint64_t bytes);

}  // namespace tzmark::cli
