// tzmark minimize; see minimize_command.h.
#include "commands/minimize_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "commands/secret_files.h"
#include "model/text.h"
#include "mutation/failure.h"
#include "mutation/minimize.h"
#include "runner/adapter.h"
#include "runner/command_line.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;
using mutation::Failure;

constexpr int kMinimizeVersion = 1;

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

double seconds_of(std::chrono::nanoseconds elapsed) { return std::chrono::duration<double>(elapsed).count(); }

std::vector<Command> commands_of(const MinimizeArguments& arguments) {
  std::vector<Command> commands;
  for (const Command command : {Command::kDecode, Command::kVerify, Command::kStream}) {
    const auto& names = arguments.commands;
    if (names.empty() || std::find(names.begin(), names.end(), name_of(command)) != names.end()) {
      commands.push_back(command);
    }
  }
  return commands;
}

mutation::AskLimits limits_of(const MinimizeArguments& arguments) {
  mutation::AskLimits limits;
  if (arguments.timeout_seconds > 0) limits.elapsed_max = nanoseconds_of(arguments.timeout_seconds);
  if (arguments.memory_bytes > 0) limits.memory_max_bytes = arguments.memory_bytes;
  return limits;
}

// Beside the file: "model.tensors" becomes "model.min.tensors".
fs::path out_of(const MinimizeArguments& arguments) {
  if (!arguments.out.empty()) return arguments.out;
  const fs::path file = arguments.file;
  return file.parent_path() / (file.stem().string() + ".min" + file.extension().string());
}

Json describe_file(const fs::path& path, model::Bytes content) {
  return {{"path", path.string()}, {"size_bytes", content.size()}, {"sha256", sha256_of(content)}};
}

Json describe_failure(const Failure& failure) {
  return {{"command", name_of(failure.command)},
          {"outcome", name_of(failure.outcome)},
          {"rule", failure.rule.empty() ? Json() : Json(failure.rule)},
          {"sign", failure.sign},
          {"reason", failure.reason}};
}

// Where the person gave the secret in a file, the line names that file and not the secret.
std::string repeat_command(const MinimizeArguments& arguments, const Adapter& adapter, const Failure& failure,
                           const fs::path& out) {
  std::vector<std::string> words = adapter.argv();
  words.emplace_back(name_of(failure.command));
  const bool from_stdin = failure.command == Command::kStream;
  if (!from_stdin) words.push_back(out.string());
  if (!arguments.key_file.empty()) words.insert(words.end(), {"--key-file", arguments.key_file});
  if (!arguments.passphrase_file.empty()) words.insert(words.end(), {"--passphrase-file", arguments.passphrase_file});
  return join_command(words) + (from_stdin ? " < " + join_command({out.string()}) : "");
}

}  // namespace

void add_minimize_options(CLI::App& app, MinimizeArguments& arguments) {
  app.add_option("FILE", arguments.file, "the file that the implementation fails on")->required();
  app.add_option("--adapter", arguments.adapter_command,
                 "command of the implementation under test, as in PROTOCOL.md (default: the reference)")
      ->type_name("CMD");
  app.add_option("--command", arguments.commands, "only failures of this command: decode, verify, stream; repeatable")
      ->type_name("COMMAND")
      ->check(CLI::IsMember({"decode", "verify", "stream"}))
      ->expected(1)
      ->take_all();
  CLI::Option* const key =
      app.add_option("--key-file", arguments.key_file, "key of an encrypted file: 32 raw bytes or 64 hex digits")
          ->type_name("F");
  app.add_option("--passphrase-file", arguments.passphrase_file, "passphrase of an encrypted file")
      ->type_name("F")
      ->excludes(key);
  app.add_option("-o,--out", arguments.out, "the file to be written (default: FILE with .min before its extension)")
      ->type_name("OUT");
  app.add_option("--json", arguments.json_file, "write what was found as JSON")->type_name("F");
  app.add_option("--timeout", arguments.timeout_seconds,
                 "limit a command, over what the adapter takes to start (default: 10, and 1 for every 10 MiB)")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app.add_option("--memory", arguments.memory_bytes,
                 "memory a command may use over the idle adapter (default: 64 MiB, and 8 times the file)")
      ->type_name("BYTES[KiB|MiB|GiB]")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app.add_option("--time", arguments.time_seconds, "stop after that long with what is smallest then (default: 600)")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app.add_flag("--one-shot", arguments.one_shot, "start the adapter for each question, even if it can serve");
}

int run_minimize(const MinimizeArguments& arguments, const fs::path& prefix, const std::atomic<bool>& cancelled) {
  const auto began = std::chrono::steady_clock::now();
  const mutation::FileSecret secret = secret_of_files(arguments.key_file, arguments.passphrase_file);
  const std::vector<std::byte> file = read_file(arguments.file);
  const std::vector<std::string> argv =
      arguments.adapter_command.empty() ? std::vector<std::string>{prefix / "libexec/tzmark/tzmark-adapter-reference"}
                                        : split_command(arguments.adapter_command);
  const Adapter adapter(argv, cancelled, arguments.one_shot ? Form::kOneShot : Form::kAny);
  const mutation::AskLimits limits = limits_of(arguments);
  const std::optional<Failure> failure = find_failure(adapter, file, secret, commands_of(arguments), limits);
  if (cancelled) throw EnvironmentError("stopped");
  if (!failure) {
    tell(fmt::format("{}: the implementation does not fail on this file", arguments.file));
    return 1;
  }
  const auto still_fails = [&](model::Bytes candidate) {
    if (cancelled) throw EnvironmentError("stopped");
    return fails_alike(adapter, candidate, secret, *failure, limits);
  };
  const mutation::Minimized minimized =
      mutation::minimize(file, to_model(secret), still_fails, {.elapsed_max = nanoseconds_of(arguments.time_seconds)});
  const fs::path out = out_of(arguments);
  write_file(out, model::text_of(minimized.file));
  const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - began;
  const std::string repeat = repeat_command(arguments, adapter, *failure, out);
  const std::string about = failure->rule.empty() ? "" : " (" + failure->rule + ")";
  say("{}: {}{}: {}\n", name_of(failure->command), name_of(failure->outcome), about, failure->reason);
  say("{}: {} of {} bytes, after {} candidates in {:.1f} s{}\n", out.string(), minimized.file.size(), file.size(),
      minimized.candidates, seconds_of(elapsed), minimized.finished ? "" : "; the time ran out");
  say("{}\n", repeat);
  if (arguments.json_file.empty()) return 0;
  const Json result = {{"schema", "tzmark-minimize"},
                       {"schema_version", kMinimizeVersion},
                       {"tzmark_version", TZMARK_VERSION},
                       {"adapter", {{"argv", adapter.argv()}, {"profile", adapter.profile().document}}},
                       {"file", describe_file(arguments.file, file)},
                       {"failure", describe_failure(*failure)},
                       {"minimized", describe_file(out, minimized.file)},
                       {"candidates", minimized.candidates},
                       {"finished", minimized.finished},
                       {"elapsed_ns", elapsed.count()},
                       {"repeat", repeat}};
  write_file(arguments.json_file, result.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  return 0;
}

}  // namespace tzmark::conformance
