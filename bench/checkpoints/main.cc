// tzmark-checkpoint-bench: what saving a checkpoint costs the training loop, and what writing it behind the loop costs.
//
// Exit status: 0 fine, 1 a promise is broken, 2 wrong usage, 3 the environment failed, 4 not available on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <optional>

#include "bytes/utf8.h"
#include "checkpoints/document.h"
#include "program/arguments.h"
#include "program/standard_streams.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

int measure(const MeasurementOptions& options, const std::string& json_file, const std::vector<std::string>& command) {
  // Opened first: nobody wants to hear at the end that it cannot be written.
  std::optional<AtomicFile> file;
  if (!json_file.empty()) file.emplace(json_file);
  const Measurement measurement = measure_checkpoints(options);
  const std::vector<CheckpointCheck> checks = check_checkpoints(measurement);
  if (::isatty(STDERR_FILENO) != 0) print_to_stderr("\r\033[K");
  print_lines(checkpoint_table(measurement, checks));
  if (file) {
    const std::string text = checkpoint_document(command, options, measurement, checks)
                                 .dump(1, ' ', false, nlohmann::json::error_handler_t::replace) +
                             "\n";
    file->file().write_at(0, std::as_bytes(std::span(text)));
    file->commit();
  }
  const auto failed = [](const CheckpointCheck& check) { return check.verdict == Verdict::kFail; };
  return std::ranges::any_of(checks, failed) ? 1 : 0;
}

int fail(int status, const char* what) {
  tell(fmt::format("tzmark: {}", what));
  return status;
}

int run(int argc, char** argv) {
  constexpr int kExitEnvironment = 3;
  MeasurementOptions options;
  std::string json_file;
  CLI::App app("Measures the checkpointer: stall, background write, memory, and steps beside a save.");
  app.set_version_flag("--version", version_text());
  app.add_option("--dir", options.directory, "Directory on the storage to measure; it gets a folder that goes again")
      ->required()
      ->take_last();
  app.add_option("--workload", options.workload, "Whose tensors, as in tzmark bench; an optimizer is added")
      ->capture_default_str();
  app.add_option("--scale", options.state_bytes, "Bytes of model and optimizer, at most (default 512MiB)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--io", options.io_path, "I/O path that checkpoints and plain files are written by")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads that copy and write; 0 is one a core")->capture_default_str();
  app.add_option("--step-ms", options.step_ms, "Computing in a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "How often each is measured; 6 and more give an interval")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the order within rounds")->capture_default_str();
  app.add_option("--json", json_file, "Write the whole result to this file");
  if (::isatty(STDERR_FILENO) != 0) {
    options.progress = [](const std::string& what) {
      print_to_stderr(fmt::format("\r\033[K{:.110}", printable(what)));
    };
  }
  try {
    open_standard_streams();
    const Parsed parsed = parse(app, argc, argv);
    if (!parsed.problem.empty()) throw Error(ErrorCode::kUsage, parsed.problem);
    print(parsed.help);
    if (!parsed.run) return 0;
    return measure(options, json_file, std::vector<std::string>(argv, argv + argc));
  } catch (const Error& error) {
    return fail(static_cast<int>(error.error_class()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(kExitEnvironment, "error: out of memory");
  } catch (const std::exception& error) {
    return fail(kExitEnvironment, error.what());
  }
}

}  // namespace
}  // namespace tzmark::bench

int main(int argc, char** argv) {
  tzmark::remove_temporary_files_at_signals();
  return tzmark::bench::run(argc, argv);
}
