// Tests of tzmark checkpoint: output, files, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/names.h"
#include "testing/files/command.h"

namespace tzmark {
namespace {

using nlohmann::json;
using test::Result;
using ::testing::EndsWith;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class CheckpointCliTest : public test::CliTest {
 protected:
  Result simulate(int steps, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {
        "checkpoint", "simulate", path("run"),  "--steps", std::to_string(steps), "--state-mib", "1",
        "--step-ms",  "0",        "--interval", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }

  json listed() const {
    const Result result = run({"checkpoint", "list", path("run"), "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out);
  }

  std::string step(int number) const {
    char name[16];
    std::snprintf(name, sizeof name, "step-%08d", number);
    return path("run") + "/" + name;
  }

  void flip_last_byte(const std::string& name) const {
    std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(byte);
  }
};

TEST_F(CheckpointCliTest, SavesListsAndVerifies) {
  const Result result = simulate(5);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "no checkpoint found; starting at step 0\n");
  EXPECT_THAT(result.out, HasSubstr(step(2) + ": durable, "));
  const json list = listed();
  ASSERT_EQ(list["checkpoints"].size(), 2);
  EXPECT_EQ(list["checkpoints"][1]["step"], 4);
  EXPECT_EQ(list["checkpoints"][1]["status"], "committed");
  EXPECT_EQ(list["latest"], step(4));
  EXPECT_THAT(run({"checkpoint", "list", path("run")}).out, HasSubstr("latest: " + step(4)));
  for (const std::string& name : {path("run"), step(4)}) {
    const Result verified = run({"checkpoint", "verify", name, "--from-device"});
    EXPECT_EQ(verified.status, 0) << verified.err;
    EXPECT_THAT(verified.out, HasSubstr(step(4) + ": step 4, not sharded, 3 files, "));
  }
}

TEST_F(CheckpointCliTest, SaysThatTensorsAreOfPytorch) {
  ASSERT_EQ(simulate(2).status, 0);
  for (const char* const name : {"/model.safetensors", "/optimizer.safetensors"}) {
    EXPECT_THAT(run({"dump", step(2) + name}).out, HasSubstr(R"("metadata": {"format":"pt"})")) << name;
  }
}

TEST_F(CheckpointCliTest, VerifyTellsDamagedFromMissing) {
  ASSERT_EQ(simulate(4).status, 0);
  flip_last_byte(step(4) + "/optimizer.safetensors");
  const Result damaged = run({"checkpoint", "verify", path("run")});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.err, HasSubstr("error CKP-002"));
  EXPECT_THAT(damaged.err, HasSubstr("optimizer.safetensors"));
  EXPECT_EQ(run({"checkpoint", "verify", step(2)}).status, 0);
  fs::remove(step(2) + "/commit.json");
  const Result uncommitted = run({"checkpoint", "verify", step(2)});
  EXPECT_EQ(uncommitted.status, 1);
  EXPECT_THAT(uncommitted.err, HasSubstr("error CKP-001"));
  EXPECT_THAT(run({"checkpoint", "verify", path("run")}).err, HasSubstr("passed over " + step(2) + ": "));
  fs::create_directory(path("empty"));
  EXPECT_EQ(run({"checkpoint", "verify", path("empty")}).status, 3);
  EXPECT_EQ(run({"checkpoint", "verify", path("missing")}).status, 3);
  EXPECT_EQ(run({"checkpoint", "list", path("missing")}).status, 3);
}

// Step 8 is of a branch that the run has given up.
TEST_F(CheckpointCliTest, VerifyTakesNoOlderCheckpointForADamagedOne) {
  ASSERT_EQ(simulate(8).status, 0);
  ASSERT_EQ(simulate(6, {"--from-step", "2"}).status, 0);
  flip_last_byte(step(6) + "/commit.json");
  const Result damaged = run({"checkpoint", "verify", path("run")});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.err, HasSubstr("error CKP-002"));
  EXPECT_THAT(damaged.err, HasSubstr(step(6) + ": it may be the newest checkpoint, and is damaged"));
  EXPECT_EQ(run({"checkpoint", "consolidate", path("run"), path("out")}).status, 1);
  EXPECT_EQ(simulate(10).status, 1);
  const Result intact = run({"checkpoint", "verify", path("run"), "--intact"});
  EXPECT_EQ(intact.status, 0) << intact.err;
  EXPECT_THAT(intact.err, HasSubstr("passed over " + step(6)));
}

TEST_F(CheckpointCliTest, ResumesFromTheNewestAndKeepsTheRest) {
  ASSERT_EQ(simulate(4).status, 0);
  // The remains of an interrupted save.
  const std::string dead = path("run/") + checkpoint::temporary_name("step-00000006", "0123");
  fs::create_directory(dead);
  fs::create_directory(step(6) + ".tmp-mine");
  const Result result = simulate(10, {"--keep-latest", "1", "--keep-every", "4"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("interrupted save: " + dead + "\n"));
  EXPECT_THAT(result.err, HasSubstr("step-00000006.tmp-mine: not deleted: its name lacks the mark of a save\n"));
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::remove(step(6) + ".tmp-mine"));
  EXPECT_THAT(result.err, EndsWith("resumed from the checkpoint of step 4\n"));
  const json list = listed();
  std::vector<int> steps;
  for (const json& entry : list["checkpoints"]) steps.push_back(entry["step"]);
  EXPECT_EQ(steps, (std::vector{4, 8, 10}));
}

TEST_F(CheckpointCliTest, ListsTheOrderOfCommitsAndWhatTheNewestDoesNotContinueFrom) {
  ASSERT_EQ(simulate(8).status, 0);
  const Result result = simulate(6, {"--from-step", "2", "--keep-latest", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("resumed from the checkpoint of step 2\n"));
  EXPECT_THAT(result.err,
              HasSubstr(step(6) + ": not deleted, as all of its run: this run does not continue from it\n"));
  // Of the steps 4 and 6, both have replaced older ones, and the former was deleted.
  fs::copy(step(6), path("run") + "/best");
  const json list = listed();
  ASSERT_EQ(list["checkpoints"].size(), 3);
  const json& given_up = list["checkpoints"][0];
  const json& copy = list["checkpoints"][1];
  const json& newest = list["checkpoints"][2];
  EXPECT_EQ(list["latest"], step(6));
  EXPECT_EQ(given_up["directory"], step(8));
  EXPECT_EQ(given_up["on_line"], false);
  EXPECT_EQ(newest["directory"], step(6));
  EXPECT_EQ(newest["on_line"], true);
  EXPECT_EQ(newest["copy_of"], nullptr);
  EXPECT_GT(newest["sequence"], given_up["sequence"]);
  EXPECT_EQ(copy["copy_of"], "step-00000006");
  const std::string table = run({"checkpoint", "list", path("run")}).out;
  EXPECT_THAT(table, HasSubstr("sequence 4, after one that is gone, the newest does not continue from it\n"));
  EXPECT_THAT(table, HasSubstr("sequence 6, after one that is gone, copy of step-00000006\n"));
  const Result missing = simulate(6, {"--from-step", "5"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("there is no checkpoint of step 5"));
}

TEST_F(CheckpointCliTest, TakesTheNewestIntactCheckpoint) {
  ASSERT_EQ(simulate(6).status, 0);
  flip_last_byte(step(6) + "/optimizer.safetensors");
  const Result verified = run({"checkpoint", "verify", path("run"), "--intact"});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr(step(4) + ": step 4"));
  EXPECT_THAT(verified.err, HasSubstr("passed over " + step(6) + ": "));
  EXPECT_EQ(run({"checkpoint", "verify", path("run")}).status, 1);
  EXPECT_EQ(run({"checkpoint", "verify", step(4), "--intact"}).status, 2);
  for (const int number : {2, 4}) flip_last_byte(step(number) + "/optimizer.safetensors");
  const Result none = run({"checkpoint", "verify", path("run"), "--intact"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("error CKP-002"));
  EXPECT_THAT(none.err, HasSubstr("none of 3 checkpoints is intact; passed over " + step(6)));
  fs::create_directory(path("empty"));
  EXPECT_EQ(run({"checkpoint", "verify", path("empty"), "--intact"}).status, 3);
}

TEST_F(CheckpointCliTest, ReplacesTheCheckpointOfTheSameName) {
  ASSERT_EQ(simulate(4, {"--same-name"}).status, 0);
  const Result result = simulate(7, {"--same-name"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, EndsWith("resumed from the checkpoint of step 4\n"));
  const json list = listed();
  ASSERT_EQ(list["checkpoints"].size(), 1);
  EXPECT_EQ(list["checkpoints"][0]["directory"], path("run") + "/last");
  EXPECT_EQ(list["checkpoints"][0]["step"], 6);
  EXPECT_EQ(run({"checkpoint", "verify", path("run")}).status, 0);
}

TEST_F(CheckpointCliTest, RejectsCheckpointsOfAnotherSimulation) {
  ASSERT_EQ(simulate(2).status, 0);
  const Result result = simulate(4, {"--seed", "7"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("error TZE-USE-001"));
}

TEST_F(CheckpointCliTest, WritesAnyLayout) {
  ASSERT_EQ(simulate(2, {"--layout", "v5-segments", "--io", "buffered"}).status, 0);
  EXPECT_EQ(run({"verify", step(2) + "/model.tensors"}).status, 0);
  ASSERT_EQ(simulate(4, {"--layout", "auto"}).status, 0);
  EXPECT_EQ(run({"verify", step(4) + "/optimizer.tensors"}).status, 0);
}

TEST_F(CheckpointCliTest, WritesMeasurementsAsJson) {
  const Result result = simulate(6, {"--json", path("result.json"), "--memory-limit", "64MiB"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json document = json::parse(test::slurp(path("result.json")));
  EXPECT_EQ(document["options"]["memory_limit_bytes"], 64 << 20);
  EXPECT_EQ(document["steps"]["all"]["count"], 6);
  ASSERT_EQ(document["saves"].size(), 3);
  for (const json& save : document["saves"]) {
    EXPECT_EQ(save["stall_ns"].get<std::uint64_t>(), save["wait_ns"].get<std::uint64_t>() +
                                                         save["copy_ns"].get<std::uint64_t>() +
                                                         save["submit_ns"].get<std::uint64_t>());
    EXPECT_GT(save["drain_ns"], 0);
    EXPECT_GE(save["file_bytes"], document["state_bytes"]);
  }
  EXPECT_GE(document["peak_resident_bytes"], document["snapshot_memory_bytes"]);
}

TEST_F(CheckpointCliTest, RejectsWrongUsageAndTooLittleMemory) {
  EXPECT_EQ(run({"checkpoint"}).status, 2);
  EXPECT_EQ(simulate(2, {"--layout", "v9"}).status, 2);
  EXPECT_EQ(simulate(2, {"--interval", "0"}).status, 2);
  EXPECT_EQ(simulate(2, {"--keep-every", "4"}).status, 2);
  EXPECT_EQ(simulate(2, {"--io", "telepathy"}).status, 2);
  const Result result = simulate(2, {"--memory-limit", "1MiB"});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("error TZE-ENV-006"));
  ASSERT_EQ(simulate(2).status, 0);
  EXPECT_NE(run({"checkpoint", "consolidate", path("run"), path("whole")}).status, 0);
  EXPECT_FALSE(fs::exists(path("whole")));
}

TEST_F(CheckpointCliTest, RejectsNumbersOutOfRange) {
  ASSERT_EQ(simulate(2).status, 0);
  for (const char* number : {"0", "-1", "65537", "4000000000", "1e3", "x"}) {
    EXPECT_EQ(run({"checkpoint", "reshard", path("run"), path("out"), "--world-size", number}).status, 2) << number;
  }
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--steps", "-1"},        {"--interval", "-1"},   {"--step-ms", "-1"},   {"--step-ms", "inf"},
      {"--step-ms", "nan"},     {"--step-ms", "1e300"}, {"--state-mib", "-1"}, {"--state-mib", "99999999999"},
      {"--keep-latest", "-1"},  {"--keep-every", "-1"}, {"--threads", "-1"},   {"--threads", "4000000000"},
      {"--memory-limit", "-1"}, {"--seed", "-1"},       {"--steps", "1e300"}};
  for (const auto& [option, number] : wrong) {
    const Result result = run({"checkpoint", "simulate", path("new"), option + "=" + number});
    EXPECT_EQ(result.status, 2) << option << " " << number << ": " << result.err;
    EXPECT_FALSE(fs::exists(path("new"))) << option << " " << number;
  }
}

TEST_F(CheckpointCliTest, PrintsNoControlBytes) {
  const auto unprintable = [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f; };
  for (const char* command : {"simulate", "list", "verify", "consolidate", "reshard"}) {
    const Result help = run({"checkpoint", command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_TRUE(std::ranges::none_of(help.out, unprintable)) << help.out;
  }
  EXPECT_EQ(simulate(2, {"--strategy", "zero"}).status, 0);
  const Result wrong = simulate(4, {"--strategy", "none"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(std::ranges::none_of(wrong.err, unprintable)) << wrong.err;
  const std::string name = path("run") + "/a\x1b[2J\u202e\u2066\u200b\xff";
  fs::rename(step(2), name);
  fs::copy(name, name + "-uncommitted", fs::copy_options::recursive);
  fs::remove(name + "-uncommitted/commit.json");
  fs::create_directory(name + ".tmp-1");
  for (const char* command : {"list", "verify"}) {
    const Result result = run({"checkpoint", command, path("run")});
    EXPECT_EQ(result.status, 0) << result.err;
    for (const std::string& text : {result.out, result.err}) {
      EXPECT_TRUE(std::ranges::none_of(text, unprintable)) << text;
      for (const char* hidden : {"\u202e", "\u2066", "\u200b", "\xff"}) EXPECT_EQ(text.find(hidden), std::string::npos);
    }
  }
}

TEST_F(CheckpointCliTest, ListsNamesThatAreNotUtf8AndAnUnreadableLatest) {
  ASSERT_EQ(simulate(2).status, 0);
  fs::rename(step(2), path("run") + "/a\xff");
  Result result = run({"checkpoint", "list", path("run"), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  json list = json::parse(result.out);
  EXPECT_EQ(list["checkpoints"][0]["directory"], path("run") + "/a\xef\xbf\xbd");
  EXPECT_THAT(list["checkpoints"][0]["directory_hex"].get<std::string>(), EndsWith("2f61ff"));
  EXPECT_EQ(list["latest"], step(2));
  EXPECT_FALSE(list.contains("latest_hex"));
  std::ofstream(path("run") + "/latest") << "a\xff\n";
  EXPECT_THAT(listed()["latest_hex"].get<std::string>(), EndsWith("2f61ff"));
  fs::remove(path("run") + "/latest");
  fs::create_symlink("a", path("run") + "/latest");
  result = run({"checkpoint", "list", path("run"), "--json"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("/latest: "));
  EXPECT_EQ(json::parse(result.out)["latest"], nullptr);
}

TEST_F(CheckpointCliTest, ResumesDespiteAnUnreadableDirectory) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every directory";
  ASSERT_EQ(simulate(4).status, 0);
  // A name that the next run does not save to.
  const std::string kept = path("run") + "/kept";
  fs::rename(step(4), kept);
  fs::permissions(kept, fs::perms::none);
  const json list = listed();
  EXPECT_EQ(list["checkpoints"][0]["status"], "unreadable");
  const Result result = simulate(6);
  fs::permissions(kept, fs::perms::owner_all);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("passed over " + kept));
  EXPECT_THAT(result.err, HasSubstr("resumed from the checkpoint of step 2\n"));
  EXPECT_THAT(result.err, HasSubstr(kept + ": unreadable, so it may count as newer than this save: "));
}

TEST_F(CheckpointCliTest, ReportsAMissingProgram) {
  const fs::path built = fs::path(program_).parent_path().parent_path();
  fs::create_directory(path("bin"));
  fs::copy_file(program_, path("bin/tzmark"));
  program_ = path("bin/tzmark");
  const auto expect_missing = [&](const Result& result, const std::string& sibling) {
    EXPECT_EQ(result.status, 4);
    EXPECT_THAT(result.err, HasSubstr("error TZE-AVL-001"));
    EXPECT_THAT(result.err, HasSubstr(sibling));
  };
  expect_missing(simulate(2), "tzmark-checkpoint-simulate: ");
  const fs::path libexec = "libexec/tzmark";
  fs::create_directories(path(libexec));
  fs::copy_file(built / libexec / "tzmark-checkpoint-simulate", path(libexec / "tzmark-checkpoint-simulate"));
  EXPECT_EQ(simulate(2).status, 0);
  expect_missing(simulate(2, {"--mpi"}), "tzmark-checkpoint-mpi: ");
}

}  // namespace
}  // namespace tzmark
