// tzmark dump: the canonical JSON of a file.
#include <memory>

#include "cli/commands.h"
#include "tzmark/canonical.h"

namespace tzmark::cli {

void add_dump(CLI::App& app) {
  auto options = std::make_shared<InputOptions>();
  CLI::App* command = app.add_subcommand("dump", "Print the content as canonical JSON, with a SHA-256 of each tensor");
  options->add_to(*command);
  command->callback([options] {
    const Reader reader = options->open();
    print(about(options->file_name, [&] { return canonical_json(reader); }));
  });
}

}  // namespace tzmark::cli
