// The options that commands of tzmark checkpoint share.
#include <fmt/format.h>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "program/standard_streams.h"

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
          "Of the files: safetensors, or .tensors in a layout as convert knows them; auto is the lowest that the "
          "content needs")
      ->default_str("safetensors");
  command.add_option("--io", options.io_path, "I/O path: auto, or one of those that tzmark bench --list-io tells")
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Threads that copy and write; 0 is one per core")
      ->check(CLI::Range(0U, CheckpointOptions::kThreadsMax))
      ->capture_default_str();
}

void add_read_options(CLI::App& command, CheckpointReadOptions& options) {
  command.add_flag("--from-device", options.from_device,
                   "Forget what the system has cached of the files, so that the device is asked");
}

void warn(const std::string& text) { tell(text); }

void warn_of_unusable(const std::string& directory) {
  for (const CheckpointInfo& other : list_checkpoints(directory)) {
    const bool unusable =
        other.status == CheckpointInfo::Status::kUncommitted || other.status == CheckpointInfo::Status::kUnreadable;
    if (unusable) warn(fmt::format("passed over {}: {}", other.directory, other.problem));
  }
}

}  // namespace tzmark::cli
