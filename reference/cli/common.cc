// What the subcommands share.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "cli/commands.h"
#include "cli/progress.h"
#include "program/standard_streams.h"
#include "remote/core_dumps.h"

namespace tzmark::cli {
namespace {

// Standard input has no name that its files could lie next to.
template <typename AnyReader, typename Options>
AnyReader open_as(ModelFile model, Options options) {
  if (model.file_name == "-") return AnyReader(std::move(model.file), std::move(options));
  return AnyReader::open(std::move(model.file), model.file_name, std::move(options));
}

// Warns of a file with a secret. A pipe is that of a shell, which nothing else can open later.
void tell_if_others_can_read(const std::string& file_name) {
  using std::filesystem::perms;
  std::error_code unknown;
  const auto status = std::filesystem::status(file_name, unknown);
  if (unknown || !std::filesystem::is_regular_file(status)) return;
  if ((status.permissions() & (perms::group_read | perms::others_read)) == perms::none) return;
  tell(fmt::format("tzmark: {}: warning: other users can read this secret: change its mode to 600",
                   printable(file_name)));
}

}  // namespace

void InputOptions::add_to(CLI::App& command, Keys keys) {
  add_to(command, keys, "FILE", kModelDescription, /*required=*/true);
}

void InputOptions::add_to(CLI::App& command, Keys keys, const std::string& positional, const std::string& description,
                          bool required) {
  command.add_option(positional, file_name, description)->required(required);
  add_reading_to(command, keys, positional);
}

void InputOptions::add_reading_to(CLI::App& command, Keys keys, const std::string& positional) {
  add_io_to(command);
  command.add_option("--data-file", data_file_name,
                     "Data of " + positional + ", where that has detached data (an extension of tzmark)");
  command
      .add_option("--safetensors-profile", safetensors_profile,
                  "Rules for safetensors: spec = those of the specification, library = those of the reference library")
      ->check(CLI::IsMember({"spec", "library"}))
      ->capture_default_str();
  threads_option_ =
      command.add_option("--threads", threads, "Threads for hashing, decryption and I/O; 0 = one per core")
          ->capture_default_str();
  if (keys == Keys::kAccepted) add_keys_to(command);
}

void InputOptions::add_io_to(CLI::App& command) {
  io_option_ = command.add_option("--io", io_path, "I/O path: auto, or one listed by tzmark bench --list-io")
                   ->capture_default_str();
  profile_option_ = add_profile(command, [this](Profile profile) { profile_ = std::move(profile); });
}

CLI::Option* add_profile(CLI::App& command, std::function<void(Profile)> action) {
  return command.add_option_function<std::string>(
      "--profile",
      [action = std::move(action)](const std::string& name) {
        with_file_name(name, [&] { action(load_profile(name)); });
      },
      "File with settings of tzmark tune: I/O path, block size, queue depth and threads; options given here win");
}

ProfileSettings InputOptions::with_given(ProfileSettings settings) const {
  const auto is_given = [](const CLI::Option* option) { return option != nullptr && option->count() != 0; };
  if (is_given(io_option_)) settings.io_path = io_path;
  if (is_given(threads_option_)) settings.threads = threads;
  return settings;
}

ProfileSettings InputOptions::loading() const {
  if (!profile_) return with_given({});
  return with_given(profile_->loading(data_file_name.empty() ? file_name : data_file_name));
}

ProfileSettings InputOptions::saving() const {
  ProfileSettings settings = with_given(profile_ ? profile_->saving() : ProfileSettings());
  // What is read by a URL is written to a file of this machine.
  if (settings.io_path && path_traits(*settings.io_path).is_remote) settings.io_path.reset();
  return settings;
}

void InputOptions::add_keys_to(CLI::App& command) {
  command.add_flag("--progress", progress, "Show progress on stderr even if it is not a terminal");
  key_options.add_to(
      command, "",
      {.key_file = "File or pipe, such as <(command), with the key of an encrypted file: 32 raw bytes or 64 hex digits",
       .passphrase_file = "File with the passphrase of an encrypted file"});
}

ReadOptions InputOptions::read_options(std::optional<KeySource> key) const {
  ReadOptions options;
  options.key = std::move(key);
  options.data_file_name = data_file_name;
  apply(loading(), options);
  return options;
}

ModelFile InputOptions::open_model_file() const {
  ModelFile model =
      with_file_name(file_name, [&] { return tzmark::open_model_file(file_name, loading().io_path.value_or("auto")); });
  if (const auto counts = model.file->request_counts(); counts && counts->is_copied) {
    tell(
        fmt::format("tzmark: {}: note: the server cannot send parts of a file, so all {} were copied to a temporary "
                    "file",
                    printable(display_name(file_name)), human_bytes(model.file->size())));
  }
  return model;
}

SafetensorsReader InputOptions::open_safetensors(ModelFile model, bool has_key, ProgressLine* line) const {
  if (has_key) {
    throw Error(ErrorCode::kCryptNotEncrypted, "a key was given, but safetensors files are not encrypted");
  }
  SafetensorsReadOptions options;
  options.profile = *safetensors_profile_from_name(safetensors_profile);
  apply(loading(), options);
  if (line != nullptr) options.progress = line->callback();
  SafetensorsReader reader = open_as<SafetensorsReader>(std::move(model), std::move(options));
  if (line != nullptr) line->expect(reader.data_bytes());
  return reader;
}

OpenInput InputOptions::open(ProgressLine* line) const {
  return open(with_file_name(file_name, [&] { return read_options(); }), line);
}

OpenInput InputOptions::open(ReadOptions options, ProgressLine* line) const {
  ModelFile model = open_model_file();
  OpenInput input;
  input.file_name = model.file_name;
  input.data_file_name = data_file_name;
  with_file_name(input.file_name, [&] {
    if (model.format == ModelFormat::kSafetensors) {
      input.safetensors = open_safetensors(std::move(model), options.key.has_value(), line);
      return;
    }
    if (line != nullptr) options.progress = line->callback();
    input.tensors = open_as<Reader>(std::move(model), std::move(options));
    if (line != nullptr) line->expect(input.tensors->file_bytes());
  });
  return input;
}

void KeyOptions::add_to(CLI::App& command, const std::string& prefix, const Summaries& summaries) {
  const auto add = [&](const char* name, std::optional<std::string>& value, const std::string& summary) {
    command.add_option("--" + prefix + name, value, summary);
  };
  add("key-file", key_file, summaries.key_file);
  add("passphrase-file", passphrase_file, summaries.passphrase_file);
  add("key-hex", key_hex, "Key in hex, for tests only: every process of the machine can see it");
  add("passphrase", passphrase, "Passphrase, for tests only: every process of the machine can see it");
}

std::optional<KeySource> KeyOptions::source() const {
  const int given = int{key_file.has_value()} + int{key_hex.has_value()} + int{passphrase_file.has_value()} +
                    int{passphrase.has_value()};
  if (given > 1) throw Error(ErrorCode::kUsage, "more than one key or passphrase is given");
  if (given == 0) return std::nullopt;
  // Kernels of encryption have parts of a key in registers and on the stack.
  exclude_memory_from_core_dumps();
  if (key_file) {
    Key key = key_from_file(*key_file);
    tell_if_others_can_read(*key_file);
    return key;
  }
  if (key_hex) return key_from_hex(*key_hex);
  if (!passphrase_file) return Passphrase(*passphrase);
  Passphrase secret = passphrase_from_file(*passphrase_file);
  tell_if_others_can_read(*passphrase_file);
  return secret;
}

void OutputOptions::add_to(CLI::App& command, const std::string& input, const KeyOptions::Summaries& summaries) {
  encrypt_keys.add_to(command, "encrypt-", summaries);
  add_size(command, "--chunk-bytes", chunk_bytes, "Data per MAC: a multiple of 64, at least 1 KiB")
      ->capture_default_str();
  command.add_flag("--no-crc32", no_crc32, "Write no CRC32");
  command.add_flag("--no-sha256", no_sha256, "Write no SHA-256");
  command.add_flag("--no-verify", no_verify, "Skip verifying the hashes of " + input);
  add_require_durable(command, durability);
}

WriteOptions OutputOptions::write_options() const {
  WriteOptions options;
  options.crc32 = !no_crc32;
  options.sha256 = !no_sha256;
  options.verify_source = !no_verify;
  options.durability = durability;
  if (auto key = encrypt_keys.source()) options.encrypt = EncryptOptions{std::move(*key), chunk_bytes};
  return options;
}

std::vector<std::string> KeyOptions::file_names() const {
  std::vector<std::string> names;
  for (const auto* name : {&key_file, &passphrase_file}) {
    if (*name) names.push_back(**name);
  }
  return names;
}

std::vector<std::string> InputOptions::side_file_names() const {
  std::vector<std::string> names = key_options.file_names();
  if (profile_option_ != nullptr && profile_option_->count() != 0) {
    names.push_back(profile_option_->as<std::string>());
  }
  return names;
}

std::vector<std::string> OpenInput::file_names() const {
  std::vector<std::string> names = {file_name};
  if (!data_file_name.empty()) names.push_back(data_file_name);
  if (!safetensors || !safetensors->sharded() || is_url(file_name)) return names;
  for (const SafetensorsShard& shard : safetensors->shards()) {
    names.push_back(std::filesystem::path(file_name).replace_filename(shard.file_name));
  }
  return names;
}

void require_not_read(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code unknown;  // there is no such file, or it is a pipe
    if (!std::filesystem::equivalent(output, input, unknown)) continue;
    throw Error(ErrorCode::kUsage,
                fmt::format("this is the same file as {}, which the command reads: write to another name", input));
  }
}

CLI::Option* add_size(CLI::App& command, const std::string& name, std::uint64_t& bytes, const std::string& summary) {
  return command.add_option(name, bytes, summary)->transform(CLI::AsSizeValue(true));
}

void print(std::span<const std::byte> bytes) {
  try {
    tzmark::print(bytes);
  } catch (const Error& error) {
    // Its text names standard output, and no file caused it.
    throw FileError{"", error};
  }
}

Path parse_path(const std::string& name) {
  if (!name.starts_with('[')) return {name};
  try {
    return parse_name(kStructuredNameMark + name);
  } catch (const Error&) {
    return {name};  // a plain name may begin with a bracket
  }
}

void add_require_durable(CLI::App& command, Durability& durability) {
  command.add_flag_callback(
      "--require-durable", [&durability] { durability = Durability::kRequired; },
      "Fail before writing where a new name cannot be made durable (no fsync of directories: FUSE, 9p, some NFS)");
}

void tell_not_durable(const std::string& file_name, bool names_durable) {
  if (names_durable) return;
  tell(fmt::format("tzmark: {}: warning: complete, but {}", printable(file_name), why_name_is_not_durable()));
}

void tell_lost_owner(const std::string& file_name, const Growth& growth) {
  if (growth.owner_kept) return;
  tell(fmt::format(
      "tzmark: {}: note: the file was copied to grow and now belongs to you: this process may not restore its owner or "
      "group; the mode is kept, except for permissions of the lost group and set-ID bits",
      file_name));
}

void print(std::string_view text) { print(std::as_bytes(std::span(text))); }

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

}  // namespace tzmark::cli
