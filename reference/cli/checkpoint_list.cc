// tzmark checkpoint list and verify: shows the checkpoints in a directory, and checks one.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bytes/digest.h"
#include "bytes/utf8.h"
#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "program/standard_streams.h"

namespace tzmark::cli {
namespace {

using nlohmann::json;
using Status = CheckpointInfo::Status;

std::string_view status_name(Status status) {
  switch (status) {
    case Status::kCommitted:
      return "committed";
    case Status::kUncommitted:
      return "uncommitted";
    case Status::kTemporary:
      return "temporary";
    case Status::kUnreadable:
      return "unreadable";
  }
  return {};
}

// JSON is UTF-8, and file names are any bytes. A name that is not UTF-8 has U+FFFD for each wrong byte, and a second
// member with all bytes in hex.
void add_name(json& object, const std::string& key, const std::string& name) {
  object[key] = name;
  if (find_invalid_utf8(name)) object[key + "_hex"] = to_hex(std::as_bytes(std::span(name)));
}

// Releases that recorded no order leave null.
void add_origin(json& entry, const CheckpointInfo& info) {
  const CheckpointOrigin& origin = info.origin;
  if (origin.sequence == 0) {
    for (const char* key : {"sequence", "parent", "run", "on_line", "copy_of", "host", "pid"}) entry[key] = nullptr;
    return;
  }
  entry["sequence"] = origin.sequence;
  entry["parent"] = origin.parent.empty() ? json() : json(origin.parent);
  entry["run"] = origin.run;
  entry["on_line"] = info.is_on_line;
  entry["copy_of"] = nullptr;
  if (!info.is_original) add_name(entry, "copy_of", origin.name);
  entry["host"] = origin.host;
  entry["pid"] = origin.pid;
}

json to_json(const CheckpointInfo& info) {
  json entry = {{"status", status_name(info.status)}};
  add_name(entry, "directory", info.directory);
  if (info.status != Status::kCommitted) {
    entry["problem"] = info.problem;
    return entry;
  }
  entry["save_id"] = info.save_id;
  entry["step"] = info.step;
  entry["world_size"] = info.world_size;
  entry["committed_unix_ns"] = info.committed_unix_ns;
  entry["file_bytes"] = info.file_bytes;
  entry["file_count"] = info.file_count;
  entry["commit"] = commit_method_name(info.commit);
  add_origin(entry, info);
  return entry;
}

std::string ranks_of(const CheckpointInfo& info) {
  return info.world_size == 0 ? "not sharded" : fmt::format("{} ranks", info.world_size);
}

// Returns "sequence 3, after step-00000010", and what is special about a checkpoint.
std::string origin_of(const CheckpointInfo& info, const std::vector<CheckpointInfo>& all) {
  const CheckpointOrigin& origin = info.origin;
  if (origin.sequence == 0) return "no sequence number";
  std::string text = fmt::format("sequence {}", origin.sequence);
  if (!origin.parent.empty()) {
    const auto parent = std::ranges::find(all, origin.parent, &CheckpointInfo::save_id);
    text += ", after " + (parent == all.end() ? "one that is gone" : printable(parent->origin.name));
  }
  if (!info.is_original) text += ", copy of " + printable(origin.name);
  if (!info.is_on_line) text += ", the newest does not continue from it";
  return text;
}

std::string table_line(const CheckpointInfo& info, const std::vector<CheckpointInfo>& all) {
  if (info.status != Status::kCommitted) {
    return fmt::format("{}  {}{}{}\n", printable(info.directory), status_name(info.status),
                       info.problem.empty() ? "" : ": ", printable(info.problem));
  }
  const auto committed_at = std::chrono::time_point<std::chrono::system_clock, std::chrono::seconds>(
      std::chrono::seconds(info.committed_unix_ns / 1'000'000'000));
  return fmt::format("{}  committed  step {}  {}  {} files  {}  {:%Y-%m-%dT%H:%M:%SZ}  {}\n", printable(info.directory),
                     info.step, ranks_of(info), info.file_count, human_bytes(info.file_bytes),
                     fmt::gmtime(std::chrono::system_clock::to_time_t(committed_at)), origin_of(info, all));
}

void list(const std::string& directory, bool as_json) {
  const std::vector<CheckpointInfo> found = list_checkpoints(directory);
  std::optional<std::string> latest;
  try {
    latest = read_latest_checkpoint(directory);
  } catch (const Error& error) {
    // Not fatal: the commits tell which checkpoints exist.
    tell(error.message());
  }
  if (!as_json) {
    for (const CheckpointInfo& info : found) print(table_line(info, found));
    if (latest) print(fmt::format("latest: {}\n", printable(*latest)));
    return;
  }
  json document = {{"checkpoints", json::array()}, {"latest", nullptr}};
  for (const CheckpointInfo& info : found) document["checkpoints"].push_back(to_json(info));
  if (latest) add_name(document, "latest", *latest);
  print(document.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

void verify(const std::string& directory, const CheckpointChoice& options) {
  const std::string checkpoint = find_checkpoint(directory, options);
  const CheckpointInfo info = verify_checkpoint(checkpoint, options.reading);
  print(fmt::format("{}: step {}, {}, {} files, {}, all sizes and digests match\n", printable(checkpoint), info.step,
                    ranks_of(info), info.file_count, human_bytes(info.file_bytes)));
}

}  // namespace

void add_checkpoint_list(CLI::App& group) {
  struct Options {
    std::string directory;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      group.add_subcommand("list", "List the checkpoints in a directory, the one committed last at the end");
  command->add_option("DIR", options->directory, "Directory of the checkpoints")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { list(options->directory, options->json); });
}

void add_checkpoint_verify(CLI::App& group) {
  struct Options {
    std::string directory;
    CheckpointChoice reading;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("verify", "Verify a checkpoint, or the newest one in a directory");
  command->add_option("DIR", options->directory, "Checkpoint, or directory of checkpoints")->required();
  add_read_options(*command, options->reading);
  command->callback([options] { verify(options->directory, options->reading); });
}

}  // namespace tzmark::cli
