// What is left of safetensors files if the power goes while they are written.
#include "testing/disk/power_loss.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <optional>

#include "testing/files/tensors_files.h"
#include "testing/files/test_directory.h"
#include "tzmark/safetensors.h"

namespace tzmark {
namespace {

using test::Call;
using test::Content;
using test::Outcome;
using test::PowerLossScenario;
using test::Reply;

// What a scenario writes: as one file, or in shards of this size.
struct Model {
  std::string tensor_name;
  std::uint64_t shard_bytes_max;
};

std::string name_of(const std::string& directory, bool sharded) {
  return directory + (sharded ? "/model.safetensors.index.json" : "/model.safetensors");
}

void write_model(const std::string& directory, const Model& model) {
  Content content;
  for (const char* const suffix : {"a", "b", "c", "d"}) content.add({model.tensor_name + suffix}, "uint8", {9'000});
  SafetensorsWriteOptions options;
  options.shard_bytes_max = model.shard_bytes_max;
  options.io_path = "pwrite";
  options.threads = 1;
  options.piece_bytes = 4096;
  write_safetensors(directory + "/model.safetensors", content.table, content.source(), options);
}

std::string read_model(const std::string& directory, bool sharded) {
  SafetensorsReadOptions options;
  options.io_path = "pwrite";
  options.threads = 1;
  return canonical_json(SafetensorsReader::open(name_of(directory, sharded), options));
}

void expect_safe(const std::optional<Model>& before, const Model& after, const test::SystemCalls::Hook& hook,
                 std::size_t states_min, const std::vector<std::string>& unnoticed_syncs = {}) {
  const bool sharded = after.shard_bytes_max > 0;
  PowerLossScenario scenario;
  scenario.hook = hook;
  scenario.prepare = [&](const std::string& directory) {
    if (before) write_model(directory, *before);
  };
  scenario.change = [&](const std::string& directory) { write_model(directory, after); };
  const test::TestDirectory directory;
  scenario.prepare(directory.name());
  const std::string old_content = before ? read_model(directory.name(), sharded) : "";
  scenario.change(directory.name());
  const std::string new_content = read_model(directory.name(), sharded);
  scenario.judge = [&](const std::string& state, const Outcome& outcome) -> std::string {
    if (!std::filesystem::exists(name_of(state, sharded))) {
      return before || outcome.is_finished ? "the model is gone" : "";
    }
    try {
      const std::string content = read_model(state, sharded);
      if (content == new_content || (!outcome.is_finished && content == old_content)) return {};
      return content == old_content ? "the change is lost" : "the content is neither the old one nor the new one";
    } catch (const Error& error) {
      return error.what();
    }
  };
  test::expect_safe(scenario, states_min, unnoticed_syncs);
}

Reply as_it_is(const Call&) { return true; }

Reply without_exchange(const Call& call) {
  if (call.function == "renameat2") return Reply::failure(EINVAL);
  return true;
}

const Model kOldFile = {"old.", 0}, kNewFile = {"new.", 0};
const Model kOldShards = {"old.", 10'000}, kNewShards = {"new.", 10'000}, kFewerShards = {"new.", 20'000};

TEST(SafetensorsPowerLossTest, WritesAFile) { expect_safe(std::nullopt, kNewFile, as_it_is, 100); }

TEST(SafetensorsPowerLossTest, ReplacesAFile) { expect_safe(kOldFile, kNewFile, as_it_is, 100); }

TEST(SafetensorsPowerLossTest, WritesShards) { expect_safe(std::nullopt, kNewShards, as_it_is, 400); }

TEST(SafetensorsPowerLossTest, ReplacesShardsOfOtherNames) { expect_safe(kOldShards, kFewerShards, as_it_is, 200); }

TEST(SafetensorsPowerLossTest, ReplacesShardsOfTheSameNames) { expect_safe(kOldShards, kNewShards, as_it_is, 800); }

// Each file that is replaced is then put aside durably, which makes most other syncs of the directory superfluous.
TEST(SafetensorsPowerLossTest, ReplacesShardsWhereNamesCannotBeExchanged) {
  expect_safe(kOldShards, kNewShards, without_exchange, 800, std::vector<std::string>(7, "sync directory directory"));
}

}  // namespace
}  // namespace tzmark
