// tzmark convert: the same tensors in another layout or format, with or without encryption.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/source.h"
#include "tzmark/writer.h"

namespace tzmark::cli {
namespace {

// "v1, v2, ..."
std::string layouts() {
  std::string names;
  for (const Layout layout : kLayouts) names += fmt::format("{}{}", names.empty() ? "" : ", ", layout_name(layout));
  return names;
}

struct ConvertOptions : InputOptions {
  std::string output;
  std::string layout = "auto";
  KeyOptions encrypt_keys;
  std::uint64_t chunk_bytes = kDefaultChunkBytes;
  std::uint64_t opslimit = 3;
  std::uint64_t memlimit = 256 << 20;
  std::uint64_t index_bytes = 0;
  std::uint64_t shard_bytes = 0;
  bool split = false;
  bool no_crc32 = false, no_sha256 = false, no_verify = false, no_clobber = false;

  bool writes_safetensors() const { return is_safetensors_name(output); }

  // What the options for .tensors files say that holds for safetensors as well.
  SafetensorsWriteOptions safetensors_options(const WriteOptions& common, const InputSource& input) const {
    if (common.layout || common.encrypt || index_bytes != 0 || split) {
      throw Error(ErrorCode::kUsage, "a safetensors file has no layout, no key, no index and no split pair");
    }
    SafetensorsWriteOptions options;
    options.metadata = input.metadata();
    options.shard_bytes_max = shard_bytes;
    options.verify_source = common.verify_source;
    options.threads = common.threads;
    options.io_path = common.io_path;
    options.existing = common.existing;
    options.progress = common.progress;
    return options;
  }

  WriteOptions write_options() const {
    WriteOptions options;
    if (shard_bytes != 0 && !writes_safetensors()) {
      throw Error(ErrorCode::kUsage, "only safetensors are written in shards");
    }
    if (layout != "auto") {
      options.layout = layout_from_name(layout);
      if (!options.layout) {
        throw Error(ErrorCode::kUsage, fmt::format("there is no layout '{}'; there are auto, {}", layout, layouts()));
      }
    }
    options.crc32 = !no_crc32;
    options.sha256 = !no_sha256;
    if (auto key = encrypt_keys.source()) {
      options.encrypt = EncryptOptions{std::move(*key), chunk_bytes, opslimit, memlimit};
    }
    options.index_bytes_min = index_bytes;
    options.detached_data = split;
    options.verify_source = !no_verify;
    options.threads = threads;
    options.io_path = io_path;
    options.existing = no_clobber ? AtomicFile::Existing::kRefuse : AtomicFile::Existing::kReplace;
    return options;
  }
};

void print_file(File& file) {
  std::vector<std::byte> block(1 << 20);
  for (std::uint64_t offset = 0; offset < file.size();) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), file.size() - offset));
    const auto bytes = std::span(block).first(length);
    file.read_at(offset, bytes);
    write_stdout(bytes);
    offset += length;
  }
}

void write_output(const ConvertOptions& options, WriteOptions write_options, const InputSource& input) {
  if (options.writes_safetensors()) {
    write_safetensors(options.output, input.table(), input, options.safetensors_options(write_options, input));
  } else if (options.output == "-") {
    if (options.split) throw Error(ErrorCode::kUsage, "a split pair is two files, and standard output is one");
    const auto file = temporary_file();
    write_tensors(*file, input.table(), input, write_options);
    print_file(*file);
  } else {
    write_file(options.output, input.table(), input, write_options);
  }
}

void run(const ConvertOptions& options) {
  ProgressLine progress("convert", options.progress);
  WriteOptions write_options = about(options.output, [&] { return options.write_options(); });
  write_options.progress = progress.callback();
  const InputSource input(options);
  progress.expect(input.file_bytes());
  about_output(options.output, options.file_name, [&] { write_output(options, std::move(write_options), input); });
}

}  // namespace

void add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "Write the tensors in another layout or as safetensors; encrypt, decrypt or re-key");
  options->add_to(*command);
  command
      ->add_option("OUT", options->output, "The file to write; - is standard output; safetensors if its name says so")
      ->required();
  command
      ->add_option("--layout", options->layout,
                   fmt::format("{}; auto is the lowest data version that the content needs", layouts()))
      ->capture_default_str();
  options->encrypt_keys.add_to(
      *command, "encrypt-", {.key_file = "Encrypt with this key", .passphrase_file = "Encrypt with this passphrase"});
  command->add_option("--chunk-bytes", options->chunk_bytes, "Data under one MAC; a multiple of 64, at least 1 KiB")
      ->transform(CLI::AsSizeValue(true))
      ->capture_default_str();
  command->add_option("--opslimit", options->opslimit, "Argon2id passes for a passphrase")->capture_default_str();
  command->add_option("--memlimit", options->memlimit, "Argon2id memory for a passphrase")
      ->transform(CLI::AsSizeValue(true))
      ->capture_default_str();
  command->add_option("--index-bytes", options->index_bytes, "Reserve at least this much for the index")
      ->transform(CLI::AsSizeValue(true));
  command->add_flag("--split", options->split,
                    "Write a split pair, tzmark's own extension of v5-segments: index and headers in OUT, data in "
                    "OUT.data");
  command
      ->add_option("--shard-bytes", options->shard_bytes, "Safetensors: shards of at most this much data, and an index")
      ->transform(CLI::AsSizeValue(true));
  command->add_flag("--no-crc32", options->no_crc32, "Write no CRC32");
  command->add_flag("--no-sha256", options->no_sha256, "Write no SHA-256");
  command->add_flag("--no-verify", options->no_verify, "Do not check the hashes of the input");
  command->add_flag("--no-clobber", options->no_clobber, "Fail if OUT exists");
  command->callback([options] { run(*options); });
}

}  // namespace tzmark::cli
