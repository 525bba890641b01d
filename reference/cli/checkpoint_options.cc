// The options that commands of tzmark checkpoint share.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "tzmark/error.h"

namespace tzmark::cli {

void add_write_options(CLI::App& command, CheckpointOptions& options) {
  command
      .add_option_function<std::string>(
          "--layout",
          [&options](const std::string& name) {
            options.format =
                name == "safetensors" ? CheckpointOptions::Format::kSafetensors : CheckpointOptions::Format::kTensors;
            if (name == "safetensors" || name == "auto") return;
            options.layout = layout_from_name(name);
            if (!options.layout) throw Error(ErrorCode::kUsage, fmt::format("there is no layout '{}'", name));
          },
          "Format of the files: safetensors, or .tensors in a layout of convert; auto = the oldest that can hold "
          "the content")
      ->default_str("safetensors");
  // Before the options that win over it: they are set in the order in which they are added.
  add_profile(command, [&options](const Profile& profile) { apply(profile.saving(), options); });
  command.add_option("--io", options.io_path, "I/O path: auto, or one listed by tzmark bench --list-io")
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--commit", [&options](const std::string& name) { options.commit = *commit_method_from_name(name); },
          "rename = write under a temporary name; marker = under the final one, for file systems that cannot rename "
          "directories; auto = find out")
      ->check(CLI::IsMember({"auto", "rename", "marker"}))
      ->default_str("auto");
  add_require_durable(command, options.durability);
  command.add_option("--threads", options.threads, "Threads that copy and write; 0 = one per core")
      ->check(CLI::Range(0U, CheckpointOptions::kThreadsMax))
      ->capture_default_str();
}

void add_read_options(CLI::App& command, CheckpointChoice& options) {
  command.add_flag("--from-device", options.reading.from_device,
                   "Drop the files from the page cache first, so that the device is read");
  command.add_flag("--intact", options.intact,
                   "Of a directory, take the newest checkpoint that is intact; pass over damaged ones");
}

}  // namespace tzmark::cli
