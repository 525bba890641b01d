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
    const std::string json = with_file_name(options->file_name, [&] {
      return options->is_safetensors() ? canonical_json(options->open_safetensors(&progress))
                                       : canonical_json(options->open(&progress));
    });
    progress.clear();
    print(json);
  });
}

}  // namespace tzmark::cli
