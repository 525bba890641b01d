// tzmark verify: checks that a file is valid and undamaged.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/progress.h"
#include "tzmark/device.h"

namespace tzmark::cli {
namespace {

DeviceCompute compute_from_name(std::string_view name) {
  if (name == "auto") return DeviceCompute::kAuto;
  return name == "host" ? DeviceCompute::kHost : DeviceCompute::kDevice;
}

}  // namespace

void add_verify(CLI::App& app) {
  struct Options : InputOptions {
    bool structure_only = false;
    bool quiet = false;
    bool device = false;
    std::string compute = "auto";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("verify", "Check structure, index against headers, CRC32, SHA-256 and MACs");
  options->add_to(*command);
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
  command->add_flag("-q,--quiet", options->quiet, "Print nothing if the file passes");
  command->callback([options] {
    ProgressLine progress("verify", options->progress);
    if (options->is_safetensors() && options->device) {
      throw Error(ErrorCode::kUsage, "--device is for .tensors files only");
    }
    if (options->is_safetensors()) {
      // It has no hashes: opening finds what is wrong, and reading finds a failing disk.
      const SafetensorsReader reader = with_file_name(options->file_name, [&] {
        SafetensorsReader opened = options->open_safetensors(&progress);
        if (!options->structure_only) opened.verify();
        return opened;
      });
      progress.clear();
      if (options->quiet) return;
      return print(fmt::format("{}: {} tensors, safetensors in {} file{}, structure is valid; no hashes to check\n",
                               printable(options->file_name), reader.size(), reader.shards().size(),
                               reader.shards().size() == 1 ? "" : "s"));
    }
    const Reader reader = options->open(&progress);
    with_file_name(options->file_name, [&] {
      if (options->structure_only) return reader.check_headers();
      if (!options->device) return reader.verify();
      reader.load_into_device({.verify = Verification::kAll, .compute = compute_from_name(options->compute)});
    });
    progress.clear();
    if (options->quiet) return;
    print(fmt::format("{}: {} tensors, {}, {} {}\n", printable(options->file_name), reader.tensors().size(),
                      layout_name(reader.layout()), reader.header().encrypted ? "encrypted," : "not encrypted,",
                      options->structure_only ? "structure is valid; data was not read"
                      : options->device       ? "all hashes match; the tensors were loaded into GPU memory"
                                              : "all hashes match"));
  });
}

}  // namespace tzmark::cli
