// tzmark verify: is the file whole?
#include <fmt/format.h>

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
                    "Index and headers alone: reads no data and needs no key");
  CLI::Option* const device =
      command
          ->add_flag("--device", options->device, "Load every tensor into GPU memory, and check it on the way or there")
          ->excludes("--structure-only");
  command
      ->add_option("--compute", options->compute,
                   "With --device: who computes MACs and CRC32 and decrypts, the host, the device, or auto")
      ->check(CLI::IsMember({"auto", "host", "device"}))
      ->capture_default_str()
      ->needs(device);
  command->add_flag("-q,--quiet", options->quiet, "Print nothing when all is well");
  command->callback([options] {
    ProgressLine progress("verify", options->progress);
    if (options->is_safetensors() && options->device) {
      throw Error(ErrorCode::kUsage, "only .tensors files are loaded into GPU memory");
    }
    if (options->is_safetensors()) {
      // It has no hashes: what is wrong with it shows when it is opened, or when the disk cannot read it.
      const SafetensorsReader reader = about(options->file_name, [&] {
        SafetensorsReader opened = options->open_safetensors(&progress);
        if (!options->structure_only) opened.verify();
        return opened;
      });
      progress.clear();
      if (options->quiet) return;
      return print(fmt::format("{}: {} tensors, safetensors in {} file{}, structure is right; there are no hashes\n",
                               printable(options->file_name), reader.size(), reader.shards().size(),
                               reader.shards().size() == 1 ? "" : "s"));
    }
    const Reader reader = options->open(&progress);
    about(options->file_name, [&] {
      if (options->structure_only) return reader.check_headers();
      if (!options->device) return reader.verify();
      reader.load_into_device({.verify = Verification::kAll, .compute = compute_from_name(options->compute)});
    });
    progress.clear();
    if (options->quiet) return;
    print(fmt::format("{}: {} tensors, {}, {} {}\n", printable(options->file_name), reader.tensors().size(),
                      layout_name(reader.layout()), reader.header().encrypted ? "encrypted," : "not encrypted,",
                      options->structure_only ? "structure is right; data was not read"
                      : options->device       ? "all hashes are right, and the tensors were in GPU memory"
                                              : "all hashes are right"));
  });
}

}  // namespace tzmark::cli
