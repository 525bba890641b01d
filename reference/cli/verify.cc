// tzmark verify: checks that a file is valid and undamaged.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/commands.h"
#include "cli/progress.h"
#include "tzmark/device.h"

namespace tzmark::cli {
namespace {

DeviceCompute compute_from_name(std::string_view name) {
  if (name == "auto") return DeviceCompute::kAuto;
  return name == "host" ? DeviceCompute::kHost : DeviceCompute::kDevice;
}

// Every file takes a key of its own, and a pipe with the key can be read only once.
std::optional<KeySource> another(const std::optional<KeySource>& key) {
  if (!key) return std::nullopt;
  if (const Key* const bytes = std::get_if<Key>(&*key)) return Key(bytes->bytes());
  return Passphrase(std::get<Passphrase>(*key).text());
}

struct VerifyOptions : InputOptions {
  std::vector<std::string> file_names;
  bool structure_only = false;
  bool quiet = false;
  bool device = false;
  std::string compute = "auto";
};

// Verifies options.file_name, and prints its verdict.
void verify_file(const VerifyOptions& options, const std::optional<KeySource>& key) {
  ProgressLine progress("verify", options.progress);
  const OpenInput input = options.open(options.read_options(another(key)), &progress);
  const std::string& file_name = input.file_name;
  if (input.safetensors) {
    const SafetensorsReader& reader = *input.safetensors;
    // It has no hashes: opening finds what is wrong, and reading finds a failing disk.
    with_file_name(file_name, [&] {
      if (options.device) throw Error(ErrorCode::kUsage, "--device is for .tensors files only");
      if (!options.structure_only) reader.verify();
    });
    progress.clear();
    if (options.quiet) return;
    return print(fmt::format("{}: {} tensors, safetensors in {} file{}, structure is valid; no hashes to check\n",
                             printable(display_name(file_name)), reader.size(), reader.shards().size(),
                             reader.shards().size() == 1 ? "" : "s"));
  }
  const Reader& reader = *input.tensors;
  with_file_name(file_name, [&] {
    if (options.structure_only) return reader.check_headers();
    if (!options.device) return reader.verify();
    reader.load_into_device({.verify = Verification::kAll, .compute = compute_from_name(options.compute)});
  });
  progress.clear();
  if (options.quiet) return;
  print(fmt::format("{}: {} tensors, {}, {} {}\n", printable(display_name(file_name)), reader.tensors().size(),
                    layout_name(reader.layout()), reader.header().encrypted ? "encrypted," : "not encrypted,",
                    options.structure_only ? "structure is valid; data was not read"
                    : options.device       ? "all hashes match; the tensors were loaded into GPU memory"
                                           : "all hashes match"));
}

// Verifies every file. A failure does not end it, but the exit status is the highest of all.
void verify_all(VerifyOptions& options) {
  if (options.file_names.size() > 1 && !options.data_file_name.empty()) {
    throw Error(ErrorCode::kUsage, "--data-file belongs to one FILE: verify files with detached data one by one");
  }
  if (std::ranges::count(options.file_names, "-") > 1) {
    throw Error(ErrorCode::kUsage, "standard input can be read only once");
  }
  const auto key = with_file_name(options.file_names.front(), [&] { return options.key_options.source(); });
  int status = 0;
  for (const std::string& file_name : options.file_names) {
    options.file_name = file_name;
    try {
      verify_file(options, key);
    } catch (...) {
      status = std::max(status, report_current_exception());
    }
  }
  if (status != 0) throw Failed{status};
}

}  // namespace

void add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand("verify", "Check structure, index against headers, CRC32, SHA-256 and MACs");
  command->add_option("FILE", options->file_names, std::string(kModelDescription) + ". One or more")->required();
  options->add_reading_to(*command, InputOptions::Keys::kAccepted, "FILE");
  command->add_flag("--structure-only", options->structure_only,
                    "Check index and headers only: reads no data and needs no key");
  CLI::Option* const device = command
                                  ->add_flag("--device", options->device,
                                             "Load every tensor into GPU memory, and verify it on the way or there")
                                  ->excludes("--structure-only");
  command
      ->add_option("--compute", options->compute,
                   "With --device: where to decrypt and to compute MACs and CRC32: host, device or auto")
      ->check(CLI::IsMember({"auto", "host", "device"}))
      ->capture_default_str()
      ->needs(device);
  command->add_flag("-q,--quiet", options->quiet, "Print nothing for files that pass");
  command->callback([options] { verify_all(*options); });
}

}  // namespace tzmark::cli
