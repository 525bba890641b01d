// tzmark convert: writes the same tensors in another layout or format, with or without encryption.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bytes/pieces.h"
#include "cli/commands.h"
#include "cli/held_signals.h"
#include "cli/progress.h"
#include "cli/source.h"
#include "program/standard_streams.h"
#include "tzmark/upload.h"
#include "tzmark/writer.h"

namespace tzmark::cli {
namespace {

// "v1, v2, ..."
std::string layouts() {
  std::string names;
  for (const Layout layout : kLayouts) names += fmt::format("{}{}", names.empty() ? "" : ", ", layout_name(layout));
  return names;
}

struct ConvertOptions : InputOptions, OutputOptions {
  std::string output;
  std::string layout = "auto";
  std::uint64_t opslimit = 3;
  std::uint64_t memlimit = 256 << 20;
  std::uint64_t index_bytes = 0;
  std::uint64_t shard_bytes = 0;
  std::vector<std::string> metadata;  // KEY=VALUE
  bool drop_metadata = false;
  bool split = false;
  bool no_clobber = false;

  bool writes_safetensors() const { return is_safetensors_name(output); }

  std::map<std::string, std::string> given_metadata() const {
    std::map<std::string, std::string> entries;
    for (const std::string& entry : metadata) {
      const std::size_t sign = entry.find('=');
      if (sign == std::string::npos || sign == 0) {
        throw Error(ErrorCode::kUsage, fmt::format("--metadata: '{}' is not of the form KEY=VALUE", entry));
      }
      entries.insert_or_assign(entry.substr(0, sign), entry.substr(sign + 1));
    }
    return entries;
  }

  // Sets the metadata to write: that of the input, with what --metadata gives. A .tensors file implies that of PyTorch.
  // What the index of shards has stays there, if there is one.
  void add_metadata(const InputSource& input, SafetensorsWriteOptions& options) const {
    options.metadata = given_metadata();
    if (drop_metadata) return;
    input.require_one_metadata(options.metadata,
                               "give it with --metadata KEY=VALUE, or leave all out with --drop-metadata");
    if (shard_bytes != 0) {
      for (const auto& [key, value] : input.index_metadata()) {
        const auto given = options.metadata.find(key);
        options.index_metadata.emplace(key, given != options.metadata.end() ? given->second : value);
      }
    }
    const auto kept = input.is_safetensors() ? input.metadata() : torch_metadata();
    options.metadata.insert(kept.begin(), kept.end());
  }

  // The files that the command would lose if it wrote to one of them. INPUT itself may be replaced.
  void require_outputs_not_read() const {
    std::vector<std::string> read = side_file_names();
    for (std::string& name : encrypt_keys.file_names()) read.push_back(std::move(name));
    require_not_read(output, read);
    if (split) require_not_read(detached_data_file_name(output), read);
  }

  // Takes over the options that also apply to safetensors, and rejects the others.
  SafetensorsWriteOptions safetensors_options(const WriteOptions& common, const InputSource& input) const {
    if (common.layout || common.encrypt || index_bytes != 0 || split) {
      throw Error(ErrorCode::kUsage, "a safetensors file has no layout, key, index or detached data");
    }
    SafetensorsWriteOptions options;
    add_metadata(input, options);
    options.shard_bytes_max = shard_bytes;
    options.verify_source = common.verify_source;
    options.threads = common.threads;
    options.piece_bytes = common.part_bytes != 0 ? common.part_bytes : common.piece_bytes;
    options.io_path = common.io_path;
    options.existing = common.existing;
    options.names_wait = common.names_wait;
    options.durability = common.durability;
    options.progress = common.progress;
    return options;
  }

  WriteOptions convert_options() const {
    WriteOptions options = write_options();
    if (options.encrypt) {
      options.encrypt->opslimit = opslimit;
      options.encrypt->memlimit = memlimit;
    }
    if (shard_bytes != 0 && !writes_safetensors()) {
      throw Error(ErrorCode::kUsage, "--shard-bytes is for safetensors only");
    }
    if (!metadata.empty() && !writes_safetensors()) {
      throw Error(ErrorCode::kUsage, "--metadata is for safetensors only: a .tensors file has no metadata");
    }
    if (layout != "auto") {
      options.layout = layout_from_name(layout);
      if (!options.layout) {
        throw Error(ErrorCode::kUsage, fmt::format("no layout '{}'; use auto, {}", layout, layouts()));
      }
    }
    options.index_bytes_min = index_bytes;
    options.detached_data = split;
    apply(saving(), options);
    options.existing = no_clobber ? AtomicFile::Existing::kRefuse : AtomicFile::Existing::kReplace;
    return options;
  }
};

void print_file(File& file) {
  for_each_piece(file.size(), 1 << 20, [&](std::uint64_t offset, std::span<std::byte> piece) {
    file.read_at(offset, piece);
    print(piece);
  });
}

// Writes to S3, by way of a temporary file: hashes stand in front of the data, and parts are sent only once.
void write_object(const ConvertOptions& options, const WriteOptions& write_options, const InputSource& input) {
  if (options.split) throw Error(ErrorCode::kUsage, "detached data takes two files, and a URL names one");
  const auto file = temporary_file();
  write_tensors(*file, input.table(), input, write_options);
  UploadReport report;
  with_signals_held(options.output,
                    [&] { report = upload(*file, options.output, {.may_replace = !options.no_clobber}); });
  if (report.why_not_checked.empty()) return;
  tell(fmt::format("tzmark: {}: note: written, but its size could not be compared: {}", options.output,
                   report.why_not_checked));
}

// Returns whether the names are durable.
bool write_output(const ConvertOptions& options, WriteOptions write_options, const InputSource& input) {
  if (is_url(options.output) && (options.writes_safetensors() || !is_s3_url(options.output))) {
    throw Error(
        ErrorCode::kUsage,
        "of URLs, only s3://bucket/key can be written, as a .tensors file; otherwise, a file of this machine is "
        "needed here");
  }
  if (options.writes_safetensors()) {
    const SafetensorsWriteResult result =
        write_safetensors(options.output, input.table(), input, options.safetensors_options(write_options, input));
    if (!result.old_file_names.empty()) {
      tell(fmt::format("tzmark: {}: note: complete, but {}", printable(options.output),
                       printable(why_files_are_kept(result.old_file_names))));
    }
    return result.names_durable;
  }
  if (!options.drop_metadata) {
    input.require_one_metadata({}, kDropMetadataAdvice);
    with_file_name(options.file_name, [&] { require_no_lost_metadata(input.metadata(), kDropMetadataAdvice); });
  }
  if (options.output == "-") {
    if (options.split) throw Error(ErrorCode::kUsage, "detached data takes two files, and standard output is one");
    const auto file = temporary_file();
    write_tensors(*file, input.table(), input, write_options);
    print_file(*file);
    return true;
  }
  if (is_url(options.output)) {
    write_object(options, write_options, input);
    return true;
  }
  return write_file(options.output, input.table(), input, write_options).names_durable;
}

void run(const ConvertOptions& options) {
  ProgressLine progress("convert", options.progress);
  WriteOptions write_options = with_file_name(options.output, [&] {
    options.require_outputs_not_read();
    return options.convert_options();
  });
  write_options.progress = progress.callback();
  write_options.names_wait.notice = [&](const std::string& line) {
    progress.clear();
    tell(fmt::format("tzmark: {}: {}", options.output, line));
  };
  const InputSource input(options);
  progress.expect(input.file_bytes());
  const bool names_durable = with_file_names(options.output, input.file_name(),
                                             [&] { return write_output(options, std::move(write_options), input); });
  progress.clear();
  tell_not_durable(options.output, names_durable);
}

}  // namespace

void add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "Write the tensors in another layout or as safetensors; encrypt, decrypt or re-key them");
  options->InputOptions::add_to(*command);
  command
      ->add_option("OUT", options->output,
                   "File to write, as safetensors if its name ends so; - = standard output; s3://bucket/key = S3")
      ->required();
  command
      ->add_option("--layout", options->layout,
                   fmt::format("{}; auto = the oldest that can hold the content", layouts()))
      ->capture_default_str();
  options->OutputOptions::add_to(
      *command, "the input",
      {.key_file = "Encrypt with the key in this file", .passphrase_file = "Encrypt with the passphrase in this file"});
  command->add_option("--opslimit", options->opslimit, "Argon2id passes for a passphrase")->capture_default_str();
  add_size(*command, "--memlimit", options->memlimit, "Argon2id memory for a passphrase")->capture_default_str();
  add_size(*command, "--index-bytes", options->index_bytes, "Reserve at least this much for the index");
  command->add_flag("--split", options->split,
                    "Detach the data (an extension of v5-segments by tzmark): index and headers in OUT, data in "
                    "OUT.data");
  add_size(*command, "--shard-bytes", options->shard_bytes,
           "With safetensors: write shards of at most this much data, and an index");
  command
      ->add_option("--metadata", options->metadata,
                   "With safetensors: add this entry to the metadata, or replace it; KEY=VALUE, repeatable")
      ->type_size(1)
      ->allow_extra_args(false);
  command->add_flag("--drop-metadata", options->drop_metadata,
                    "Leave out the metadata of FILE. A .tensors file has none, so that the command refuses any but "
                    "\"format\": \"pt\" without this");
  command->add_flag("--no-clobber", options->no_clobber, "Fail if OUT exists");
  command->callback([options] { run(*options); });
}

}  // namespace tzmark::cli
