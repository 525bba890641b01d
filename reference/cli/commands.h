// The subcommands of tzmark, and what they share. Each command has its own file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bytes/utf8.h"
#include "tzmark/crypto.h"
#include "tzmark/edit.h"
#include "tzmark/error.h"
#include "tzmark/model_file.h"
#include "tzmark/profile.h"
#include "tzmark/reader.h"
#include "tzmark/safetensors.h"
#include "tzmark/writer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tzmark::cli {

class ProgressLine;

// Each adds its subcommand to app; the subcommand's callback runs it.
void add_append(CLI::App& app);
void add_edit(CLI::App& app);
void add_inspect(CLI::App& app);
void add_dump(CLI::App& app);
void add_verify(CLI::App& app);
void add_convert(CLI::App& app);
void add_extract(CLI::App& app);
void add_checkpoint(CLI::App& app);

// An error and the file in which it occurred.
struct FileError {
  std::string file_name;
  Error error;
};

// Runs action, and rethrows its Errors with the name of the file.
template <typename Action>
auto with_file_name(const std::string& file_name, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw FileError{file_name, error};
  }
}

// The four options of which at most one gives a key. The parser has rejected empty values.
struct KeyOptions {
  std::optional<std::string> key_file, key_hex, passphrase_file, passphrase;

  struct Summaries {
    std::string key_file, passphrase_file;
  };
  // prefix: of the option names, "" or "encrypt-".
  void add_to(CLI::App& command, const std::string& prefix, const Summaries& summaries);
  // Returns the key if one is given. Throws what key_from_file and its like do.
  std::optional<KeySource> source() const;
  std::vector<std::string> file_names() const;  // of the given files
};

// The options of a command that writes tensors: hashes, encryption, and whether it verifies its input.
struct OutputOptions {
  KeyOptions encrypt_keys;
  std::uint64_t chunk_bytes = kDefaultChunkBytes;
  bool no_crc32 = false, no_sha256 = false, no_verify = false;
  Durability durability = Durability::kIfPossible;

  void add_to(CLI::App& command, const std::string& input, const KeyOptions::Summaries& summaries);
  WriteOptions write_options() const;
};

// Throws TZE-USE-001 if a file to be written is also one of those that the command reads, and so would be lost; a file
// with two names counts as one.
void require_not_read(const std::string& output, const std::vector<std::string>& inputs);

// Adds --profile, and calls action with the profile. Errors name its file.
CLI::Option* add_profile(CLI::App& command, std::function<void(Profile)> action);

// What a command that reads a model says of its argument.
inline constexpr const char* kModelDescription =
    "A .tensors or safetensors file, an index of shards, or a directory with one model; - = standard input";

// Ends the command with this exit status, when its errors have been reported.
struct Failed {
  int status;
};

// Prints an error of a file on stderr, as the end of a command does, and returns its exit status. REQUIRES: called by a
// handler of an exception.
int report_current_exception(const std::string& who = "");

// An open model, in one of the readers.
struct OpenInput {
  std::string file_name;  // of the file; the argument may be its directory
  std::string data_file_name;
  std::optional<Reader> tensors;
  std::optional<SafetensorsReader> safetensors;

  std::vector<std::string> file_names() const;  // of the file, and of those that it names
};

// The options of a command that opens a file: its name, I/O path and key. Its content tells whether it is safetensors.
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
  // The same for a positional argument of another name.
  void add_to(CLI::App& command, Keys keys, const std::string& positional, const std::string& description,
              bool required);

  // The same without the positional argument.
  void add_reading_to(CLI::App& command, Keys keys, const std::string& positional);
  // Parts of the above, for commands that take only these.
  void add_io_to(CLI::App& command);
  void add_keys_to(CLI::App& command);

  ReadOptions read_options() const { return read_options(key_options.source()); }
  // key: what key_options.source() has returned, since a pipe with a key can be read only once.
  ReadOptions read_options(std::optional<KeySource> key) const;
  // Opens the file, or the only model of a directory. Errors name the file.
  ModelFile open_model_file() const;
  // The same, with its reader. Reports progress on the line, if there is one.
  OpenInput open(ProgressLine* line = nullptr) const;
  OpenInput open(ReadOptions options, ProgressLine* line = nullptr) const;

  // The settings of the profile for reading the file, or for writing; those of --io and --threads win.
  ProfileSettings loading() const;
  ProfileSettings saving() const;
  // The given files with settings and secrets.
  std::vector<std::string> side_file_names() const;

 private:
  SafetensorsReader open_safetensors(ModelFile model, bool has_key, ProgressLine* line) const;
  ProfileSettings with_given(ProfileSettings settings) const;

  std::optional<Profile> profile_;
  const CLI::Option* profile_option_ = nullptr;
  const CLI::Option* io_option_ = nullptr;
  const CLI::Option* threads_option_ = nullptr;
};

// Adds --require-durable.
void add_require_durable(CLI::App& command, Durability& durability);
// Warns that a file was written, and that a loss of power may undo that; nothing if names_durable.
void tell_not_durable(const std::string& file_name, bool names_durable);
// Reports on stderr that a file, which was copied to grow, could not keep its owner or group.
void tell_lost_owner(const std::string& file_name, const Growth& growth);

// Parses a NAME of the command line: a plain name, or a path as a JSON array.
Path parse_path(const std::string& name);

// Writes all of it to standard output, or throws. If the reader of a pipe is gone, SIGPIPE ends the program.
void print(std::string_view text);
void print(std::span<const std::byte> bytes);

// Formats a size for people: "1.5 GiB".
std::string human_bytes(std::uint64_t bytes);

// Adds an option whose value may have a unit, as in 64MiB.
CLI::Option* add_size(CLI::App& command, const std::string& name, std::uint64_t& bytes, const std::string& summary);

}  // namespace tzmark::cli
