// Tests of what is on disk when a call fails, or the power goes, at any moment of a save.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "testing/disk/model_disk.h"
#include "testing/faults/hooked_files.h"
#include "testing/files/checkpoint_models.h"

namespace tzmark {
namespace {

using test::Call;
using test::ModelDisk;
using test::small_model;
using test::small_optimizer;
using test::state_at;

struct PowerLoss {};

// How step 2 is saved, where steps 1 and 0 are there already, the latter being the one that was saved last.
struct Scenario {
  const char* new_name;
  CheckpointOptions options;
};

std::vector<Scenario> scenarios() {
  std::vector<Scenario> all = {{"/run/new", {}}, {"/run/old", {}}, {"/run/new", {}}};
  for (Scenario& scenario : all) {
    scenario.options.threads = 1;
    scenario.options.piece_bytes = 4096;
  }
  all[2].options.retention.keep_latest = 1;
  return all;
}

// Returns the warnings.
std::vector<std::string> save(const Scenario& scenario, const std::shared_ptr<FileSystem>& files,
                              const std::string& name, std::uint64_t step) {
  CheckpointOptions options = scenario.options;
  options.file_system = files;
  AsyncCheckpointer checkpointer(options);
  checkpointer.save(name, small_model(step), small_optimizer(step), state_at(step));
  return checkpointer.wait().warnings;
}

std::shared_ptr<ModelDisk> disk_with_old(const Scenario& scenario) {
  auto disk = std::make_shared<ModelDisk>();
  disk->make_directory("/run");
  disk->sync_directory("/");
  save(scenario, disk, "/run/old", 1);
  save(scenario, disk, "/run/rewound", 0);
  return disk;
}

// What is wrong with what a loader finds; empty if nothing is. newest_only: the old checkpoint is not good enough.
std::string what_is_wrong(const std::shared_ptr<FileSystem>& files, bool newest_only) {
  CheckpointReadOptions options;
  options.file_system = files;
  options.threads = 1;
  try {
    for (const CheckpointInfo& info : list_checkpoints("/run", options)) {
      if (info.status == CheckpointInfo::Status::kUncommitted) return info.directory + " is half there";
      if (info.status == CheckpointInfo::Status::kCommitted) verify_checkpoint(info.directory, options);
    }
    const auto newest = find_newest_checkpoint("/run", options);
    if (!newest) return "no checkpoint is left";
    if (newest->step < (newest_only ? 2U : 1U)) return "the newest checkpoint is gone";
    const LoadedCheckpoint loaded = load_checkpoint(newest->directory, options);
    if (test::content_of(loaded.model) != small_model(loaded.state.step).content()) return "the model is another one";
    const auto latest = read_latest_checkpoint("/run", options);
    if (!latest) return "latest is gone";
    // A retention that is cut short may leave latest alone, but it always names something that can be loaded.
    const LoadedCheckpoint by_latest = load_checkpoint(*latest, options);
    if (newest_only && by_latest.state.step != 2) return "latest names the old checkpoint";
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::vector<std::shared_ptr<ModelDisk>> all_restarts(const ModelDisk& disk) {
  std::vector<std::shared_ptr<ModelDisk>> restarts = {disk.restarted(ModelDisk::Loss::kEverything, 0),
                                                      disk.restarted(ModelDisk::Loss::kContents, 0)};
  for (std::uint64_t seed = 0; seed < 24; ++seed) restarts.push_back(disk.restarted(ModelDisk::Loss::kSome, seed));
  return restarts;
}

TEST(PowerLoss, LeavesTheNewCheckpointOrTheOneBeforeAtEveryCall) {
  for (const Scenario& scenario : scenarios()) {
    bool through = false;
    std::uint64_t cut = 0;
    for (; !through; ++cut) {
      const auto disk = disk_with_old(scenario);
      std::atomic<std::uint64_t> calls = 0;
      const auto files = std::make_shared<test::HookedFiles>(disk, [&](const Call&) {
        if (calls++ >= cut) throw PowerLoss();
        return true;
      });
      try {
        save(scenario, files, scenario.new_name, 2);
        through = true;
      } catch (const PowerLoss&) {
      }
      ASSERT_TRUE(disk->violations().empty()) << disk->violations().front();
      for (const auto& restarted : all_restarts(*disk)) {
        ASSERT_EQ(what_is_wrong(restarted, through), "") << "cut at call " << cut;
        clean_stale_checkpoints("/run", restarted);
        ASSERT_EQ(what_is_wrong(restarted, through), "") << "cut at call " << cut << ", after clearing up";
        for (const DirectoryEntry& entry : restarted->open_directory("/run")->list()) {
          ASSERT_EQ(entry.name.find(".tmp-"), std::string::npos) << entry.name << " is left, cut at call " << cut;
        }
      }
    }
    EXPECT_GT(cut, 25U);
  }
}

// Leaves out one call that makes something durable, and goes through the same moments.
TEST(PowerLoss, ShowsThatEverySyncIsNeeded) {
  for (const Scenario& scenario : scenarios()) {
    std::uint64_t syncs = 0;
    std::vector<std::string> unnoticed;
    for (std::uint64_t left_out = 0; left_out <= syncs; ++left_out) {
      const auto disk = disk_with_old(scenario);
      std::uint64_t sync = 0;
      std::string what;
      bool found = false;
      const auto files = std::make_shared<test::HookedFiles>(disk, [&](const Call& call) {
        if (sync > left_out && call.kind != Call::Kind::kLook && call.kind != Call::Kind::kLock &&
            call.kind != Call::Kind::kRead && !found) {
          for (const auto& restarted : all_restarts(*disk)) found = found || !what_is_wrong(restarted, false).empty();
        }
        if (call.kind != Call::Kind::kSync && call.kind != Call::Kind::kSyncDirectory) return true;
        if (sync++ != left_out) return true;
        what = call.what;
        return false;
      });
      save(scenario, files, scenario.new_name, 2);
      syncs = sync;
      if (left_out == syncs) break;
      found = found || !disk->violations().empty();
      for (const auto& restarted : all_restarts(*disk)) found = found || !what_is_wrong(restarted, true).empty();
      if (!found) unnoticed.push_back(what);
    }
    EXPECT_GE(syncs, 8U);
    // Where retention deletes something, its first sync of the parent makes the move of latest durable too.
    const bool syncs_twice = scenario.options.retention.keep_latest > 0;
    EXPECT_EQ(unnoticed, std::vector<std::string>(syncs_twice ? 1 : 0, "sync directory /run"));
  }
}

TEST(PowerLoss, WrongOrdersAreNoticed) {
  ModelDisk disk;
  disk.make_directory("/run");
  disk.sync_directory("/");
  // A name for what is not durable.
  disk.make_directory("/run/a.tmp-1");
  write_small_file(disk, "/run/a.tmp-1/commit.json", "{}");
  disk.rename_directory("/run/a.tmp-1", "/run/a");
  EXPECT_EQ(disk.violations().size(), 1U);
  disk.sync_directory("/run/a");
  // latest before the checkpoint has its name for good.
  write_small_file(disk, "/run/a/latest", "a\n");
  disk.replace_file("/run/a/latest", "/run/latest");
  EXPECT_EQ(disk.violations().size(), 2U);
  // And in the right order.
  disk.sync_directory("/run");
  write_small_file(disk, "/run/a/latest", "a\n");
  disk.replace_file("/run/a/latest", "/run/latest");
  EXPECT_EQ(disk.violations().size(), 2U);
}

// The call of this number fails, or all from there on.
struct Fault {
  ErrorCode code;
  const char* text;
  bool lasting;
};

TEST(Fault, OfAnyCallIsReportedAndLeavesTheNewCheckpointOrTheOneBefore) {
  const Fault faults[] = {{ErrorCode::kWriteFailed, "No space left on device", false},
                          {ErrorCode::kReadFailed, "Input/output error", false},
                          {ErrorCode::kWriteFailed, "No space left on device", true},
                          {ErrorCode::kSyncFailed, "Input/output error", true}};
  for (const Scenario& scenario : scenarios()) {
    for (const Fault& fault : faults) {
      bool through = false;
      std::uint64_t at = 0;
      for (; !through; ++at) {
        const auto disk = disk_with_old(scenario);
        std::atomic<std::uint64_t> calls = 0;
        const auto files = std::make_shared<test::HookedFiles>(disk, [&](const Call&) {
          const std::uint64_t call = calls++;
          if (call == at || (fault.lasting && call > at)) throw Error(fault.code, fault.text);
          return true;
        });
        std::vector<std::string> warnings;
        const std::string message = test::message_of([&] { warnings = save(scenario, files, scenario.new_name, 2); });
        through = calls <= at;
        // A checkpoint that retention cannot read is no failure of the save.
        ASSERT_EQ(message.empty() && warnings.empty(), through) << "call " << at << ": " << message;
        ASSERT_EQ(what_is_wrong(disk, through), "") << "call " << at;
        for (const auto& restarted : all_restarts(*disk)) ASSERT_EQ(what_is_wrong(restarted, through), "") << at;
        clean_stale_checkpoints("/run", disk);
        ASSERT_EQ(what_is_wrong(disk, through), "") << "call " << at << ", after clearing up";
        // And the next save is as good as ever.
        save(scenario, disk, scenario.new_name, 2);
        ASSERT_EQ(what_is_wrong(disk, true), "") << "call " << at;
      }
      EXPECT_GT(at, 25U);
    }
  }
}

TEST(Fault, OnARealDiskLeavesNoTemporaryFilesBehind) {
  CheckpointOptions options;
  options.threads = 1;
  bool through = false;
  for (std::uint64_t at = 0; !through; ++at) {
    const test::TestDirectory directory;
    AsyncCheckpointer before;
    before.save(directory / "a", small_model(1), {}, state_at(1));
    before.wait();
    std::atomic<std::uint64_t> calls = 0;
    bool exchanged = false;
    options.file_system = std::make_shared<test::HookedFiles>(system_file_system(), [&](const Call& call) {
      if (calls++ == at) throw Error(ErrorCode::kWriteFailed, "No space left on device");
      exchanged = exchanged || call.what.starts_with("exchange ");
      return true;
    });
    AsyncCheckpointer checkpointer(options);
    checkpointer.save(directory / "a", small_model(2), {}, state_at(2));
    const std::string message = test::message_of([&] { checkpointer.wait(); });
    through = calls <= at;
    ASSERT_EQ(message.empty(), through) << at;
    const std::uint64_t step = verify_checkpoint(directory / "a").step;
    ASSERT_TRUE(step == 2 || !through) << at;
    ASSERT_EQ(test::content_of(load_checkpoint(directory / "a").model), small_model(step).content());
    // From there on the old checkpoint has the temporary name, and may be the one that survives a loss of power.
    if (!exchanged) {
      ASSERT_THAT(directory.entries(), testing::ElementsAre("a", "latest")) << at;
    }
    clean_stale_checkpoints(directory.name());
    ASSERT_THAT(directory.entries(), testing::ElementsAre("a", "latest")) << at;
  }
}

}  // namespace
}  // namespace tzmark
