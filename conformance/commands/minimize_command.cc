// tzmark minimize; see minimize_command.h.
#include "commands/minimize_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "commands/secret_files.h"
#include "model/text.h"
#include "mutation/failure.h"
#include "mutation/minimize.h"
#include "program/local_name.h"
#include "runner/command_line.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/file_format.h"
#include "runner/report.h"
#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;
using mutation::Failure;

constexpr int kMinimizeVersion = 1;

std::vector<Command> commands_of(const MinimizeArguments& arguments) {
  std::vector<Command> commands;
  for (const Command command : {Command::kDecode, Command::kVerify, Command::kStream}) {
    const auto& names = arguments.commands;
    if (names.empty() || std::ranges::find(names, name_of(command)) != names.end()) {
      commands.push_back(command);
    }
  }
  return commands;
}

// Next to the file: "model.tensors" becomes "model.min.tensors".
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
          {"rule", or_null(failure.rule)},
          {"sign", failure.sign},
          {"reason", failure.reason}};
}

// Names the file of the secret, and not the secret.
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
  app.add_option("FILE", arguments.file, "file on which the implementation fails")->required()->check(why_not_local);
  add_adapter_options(app, arguments.adapter);
  app.add_option("--command", arguments.commands, "only failures of this command: decode, verify, stream; repeatable")
      ->type_name("COMMAND")
      ->check(CLI::IsMember({"decode", "verify", "stream"}))
      ->expected(1)
      ->take_all();
  CLI::Option* const key =
      app.add_option("--key-file", arguments.key_file, "key of an encrypted file: 32 raw bytes or 64 hex digits")
          ->type_name("F")
          ->check(why_not_local);
  app.add_option("--passphrase-file", arguments.passphrase_file, "passphrase of an encrypted file")
      ->type_name("F")
      ->check(why_not_local)
      ->excludes(key);
  app.add_option("-o,--out", arguments.out, "file to write (default: FILE with .min before its extension)")
      ->type_name("OUT")
      ->check(why_not_local);
  add_json_option(app, arguments.json_file);
  add_limit_options(app, arguments.limits, " (default: grows with the file)");
  app.add_option("--time", arguments.time_seconds,
                 "time limit, after which the smallest file so far is written (default: 600)")
      ->type_name("SECONDS")
      ->check(seconds_validator());
}

int run_minimize(const MinimizeArguments& arguments, const fs::path& prefix, const std::atomic<bool>& cancelled) {
  const auto began = std::chrono::steady_clock::now();
  if (is_index_name(arguments.file)) {
    throw UsageError(fmt::format("{}: an index of shards cannot be minimized: name one of its shards", arguments.file));
  }
  const mutation::FileSecret secret = secret_of_files(arguments.key_file, arguments.passphrase_file);
  const std::vector<std::byte> file = read_named_file(arguments.file);
  const FileFormat& format = format_of_file(file, arguments.file);
  const fs::path out = out_of(arguments);
  check_output_files({out.string(), arguments.json_file},
                     {arguments.file, arguments.key_file, arguments.passphrase_file, arguments.adapter.profile_file});
  const Adapter adapter = arguments.adapter.start(prefix, cancelled);
  const LimitOverrides& limits = arguments.limits;
  const std::optional<Failure> failure = find_failure(adapter, format, file, secret, commands_of(arguments), limits);
  if (cancelled) throw EnvironmentError("stopped");
  if (!failure) {
    tell(fmt::format("{}: the implementation does not fail on this file", arguments.file));
    return 1;
  }
  const auto still_fails = [&](model::Bytes candidate) {
    if (cancelled) throw EnvironmentError("stopped");
    return fails_alike(adapter, format, candidate, secret, *failure, limits);
  };
  const mutation::Minimized minimized = mutation::minimize(format, file, to_model(secret), still_fails,
                                                           {.elapsed_max = nanoseconds_of(arguments.time_seconds)});
  // After the time is over, no candidate has asked for this.
  if (cancelled) throw EnvironmentError("stopped");
  write_output_file(out, model::text_of(minimized.file));
  const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - began;
  const std::string repeat = repeat_command(arguments, adapter, *failure, out);
  const std::string cited_rule = failure->rule.empty() ? "" : " (" + failure->rule + ")";
  say("{}: {}{}: {}\n", name_of(failure->command), name_of(failure->outcome), cited_rule, failure->reason);
  say("{}: {} of {} bytes, after {} candidates in {:.1f} s{}\n", out.string(), minimized.file.size(), file.size(),
      minimized.candidates, seconds_of(elapsed), minimized.finished ? "" : "; the time ran out");
  say("{}", containment_lines(adapter));
  say("{}\n", repeat);
  if (arguments.json_file.empty()) return 0;
  const Json result = {{"schema", "tzmark-minimize"},
                       {"schema_version", kMinimizeVersion},
                       {"tzmark_version", TZMARK_VERSION},
                       {"adapter", describe(adapter)},
                       {"file", describe_file(arguments.file, file)},
                       {"failure", describe_failure(*failure)},
                       {"minimized", describe_file(out, minimized.file)},
                       {"candidates", minimized.candidates},
                       {"finished", minimized.finished},
                       {"elapsed_ns", elapsed.count()},
                       {"repeat", repeat}};
  write_output_file(arguments.json_file, dump_lines(result));
  return 0;
}

}  // namespace tzmark::conformance
