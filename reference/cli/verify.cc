// tzmark verify: is the file whole?
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/progress.h"

namespace tzmark::cli {

void add_verify(CLI::App& app) {
  struct Options : InputOptions {
    bool structure_only = false;
    bool quiet = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("verify", "Check structure, index against headers, CRC32, SHA-256 and MACs");
  options->add_to(*command);
  command->add_flag("--structure-only", options->structure_only,
                    "Index and headers alone: reads no data and needs no key");
  command->add_flag("-q,--quiet", options->quiet, "Print nothing when all is well");
  command->callback([options] {
    ProgressLine progress("verify", options->progress);
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
                               options->file_name, reader.size(), reader.shards().size(),
                               reader.shards().size() == 1 ? "" : "s"));
    }
    const Reader reader = options->open(&progress);
    about(options->file_name, [&] { options->structure_only ? reader.check_headers() : reader.verify(); });
    progress.clear();
    if (options->quiet) return;
    print(fmt::format("{}: {} tensors, {}, {} {}\n", options->file_name, reader.tensors().size(),
                      layout_name(reader.layout()), reader.header().encrypted ? "encrypted," : "not encrypted,",
                      options->structure_only ? "structure is right; data was not read" : "all hashes are right"));
  });
}

}  // namespace tzmark::cli
