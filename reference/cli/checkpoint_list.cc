// tzmark checkpoint list and verify: what checkpoints are there, and is one of them whole?
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"

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
  }
  return {};
}

json to_json(const CheckpointInfo& info) {
  json entry = {{"directory", info.directory}, {"status", status_name(info.status)}};
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
  return entry;
}

std::string ranks_of(const CheckpointInfo& info) {
  return info.world_size == 0 ? "not sharded" : fmt::format("{} ranks", info.world_size);
}

std::string table_line(const CheckpointInfo& info) {
  if (info.status != Status::kCommitted) {
    return fmt::format("{}  {}{}{}\n", info.directory, status_name(info.status), info.problem.empty() ? "" : ": ",
                       info.problem);
  }
  const auto committed_at = std::chrono::time_point<std::chrono::system_clock, std::chrono::seconds>(
      std::chrono::seconds(info.committed_unix_ns / 1'000'000'000));
  return fmt::format("{}  committed  step {}  {}  {} files  {}  {:%Y-%m-%dT%H:%M:%SZ}\n", info.directory, info.step,
                     ranks_of(info), info.file_count, human_bytes(info.file_bytes),
                     fmt::gmtime(std::chrono::system_clock::to_time_t(committed_at)));
}

void list(const std::string& directory, bool as_json) {
  const std::vector<CheckpointInfo> found = list_checkpoints(directory);
  const auto latest = read_latest_checkpoint(directory);
  if (!as_json) {
    for (const CheckpointInfo& info : found) print(table_line(info));
    if (latest) print(fmt::format("latest: {}\n", *latest));
    return;
  }
  json checkpoints = json::array();
  for (const CheckpointInfo& info : found) checkpoints.push_back(to_json(info));
  const json document = {{"checkpoints", std::move(checkpoints)}, {"latest", latest ? json(*latest) : json(nullptr)}};
  print(document.dump(1) + "\n");
}

void verify(const std::string& directory, const CheckpointReadOptions& reading) {
  const std::string checkpoint = find_checkpoint(directory, reading);
  if (checkpoint != directory) {
    for (const CheckpointInfo& other : list_checkpoints(directory, reading)) {
      if (other.status != Status::kUncommitted) continue;
      fmt::print(stderr, "passed over {}: {}\n", other.directory, other.problem);
    }
  }
  const CheckpointInfo info = verify_checkpoint(checkpoint, reading);
  print(fmt::format("{}: step {}, {}, {} files, {}, all sizes and digests are right\n", checkpoint, info.step,
                    ranks_of(info), info.file_count, human_bytes(info.file_bytes)));
}

}  // namespace

void add_checkpoint_list(CLI::App& group) {
  struct Options {
    std::string directory;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("list", "The checkpoints in a directory, the newest last");
  command->add_option("DIR", options->directory, "Where the checkpoints are")->required();
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options] { list(options->directory, options->json); });
}

void add_checkpoint_verify(CLI::App& group) {
  struct Options {
    std::string directory;
    CheckpointReadOptions reading;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("verify", "Read a checkpoint, or the newest of a directory, and check it");
  command->add_option("DIR", options->directory, "A checkpoint, or the directory that checkpoints are in")->required();
  add_read_options(*command, options->reading);
  command->callback([options] { verify(options->directory, options->reading); });
}

}  // namespace tzmark::cli
