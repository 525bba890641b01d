// tzmark dump: prints the content of a file as canonical JSON.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/progress.h"
#include "tzmark/canonical.h"

namespace tzmark::cli {

void add_dump(CLI::App& app) {
  auto options = std::make_shared<InputOptions>();
  CLI::App* command = app.add_subcommand("dump", "Print the content as canonical JSON, with a SHA-256 of each tensor");
  options->add_to(*command);
  command->callback([options] {
    ProgressLine progress("dump", options->progress);
    const OpenInput input = options->open(&progress);
    const std::string json = with_file_name(input.file_name, [&] {
      return input.safetensors ? canonical_json(*input.safetensors) : canonical_json(*input.tensors);
    });
    progress.clear();
    print(json);
  });
}

}  // namespace tzmark::cli
