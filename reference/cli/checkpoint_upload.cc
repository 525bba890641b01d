// tzmark checkpoint upload: copies a checkpoint to S3.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "bytes/utf8.h"
#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "cli/held_signals.h"
#include "io/paths.h"
#include "program/standard_streams.h"
#include "tzmark/upload.h"

namespace tzmark::cli {
namespace {

struct Options {
  std::string directory, url;
  CheckpointChoice choice;
};

void run(const Options& options) {
  const std::string checkpoint = find_checkpoint(options.directory, options.choice);
  UploadedCheckpoint copied;
  with_signals_held(options.url, [&] {
    copied =
        with_context(options.url, [&] { return upload_checkpoint(checkpoint, options.url, options.choice.reading); });
  });
  for (const std::string& url : copied.removed_uploads) {
    tell(fmt::format("tzmark: {}: note: removed an unfinished upload", printable(url)));
  }
  if (!copied.why_not_listed.empty()) {
    tell(fmt::format("tzmark: {}: note: unfinished uploads of earlier commands may be there: {}",
                     printable(options.url), copied.why_not_listed));
  }
  print(fmt::format("{}: step {}, {} objects, {}, {} {}\n", printable(checkpoint), copied.step, copied.file_count,
                    human_bytes(copied.file_bytes), copied.was_there ? "already at" : "copied to",
                    printable(options.url)));
}

}  // namespace

void add_checkpoint_upload(CLI::App& group) {
  auto options = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("upload", "Copy a checkpoint to S3, whole or not at all");
  command->add_option("DIR", options->directory, "Checkpoint, or a directory of which to take the newest")->required();
  command->add_option("URL", options->url, "s3://bucket/prefix of its objects, of this checkpoint alone")->required();
  add_read_options(*command, options->choice);
  command->callback([options] { run(*options); });
}

}  // namespace tzmark::cli
