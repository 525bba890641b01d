// Tests of saves by several ranks, which are threads here: one commit, or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <set>

#include "checkpoint/names.h"
#include "testing/disk/power_loss.h"
#include "testing/faults/system_calls.h"
#include "testing/faults/thread_limit.h"
#include "testing/files/checkpoint_models.h"

namespace tzmark {
namespace {

using test::Call;
using test::caught;
using test::failure;
using test::small_model;
using test::small_optimizer;
using test::state_at;
using test::ThreadGroup;
using testing::ElementsAre;
using testing::HasSubstr;

Sharding zero() {
  Sharding sharding;
  sharding.strategy = Sharding::Strategy::kZeroPartitioned;
  return sharding;
}

test::Model model_of(std::uint32_t rank, std::uint64_t step) {
  test::Model model;
  model.add("w." + std::to_string(rank), "float32", {4, 4}, 100 * step + rank);
  return model;
}

// A checkpointer for each rank.
class Ranks {
 public:
  explicit Ranks(std::uint32_t count, const CheckpointOptions& options = {}) {
    for (std::uint32_t rank = 0; rank < count; ++rank) all_.push_back(std::make_unique<AsyncCheckpointer>(options));
  }

  void save(const std::string& directory, std::uint64_t step, ThreadGroup& group) {
    for (std::uint32_t rank = 0; rank < all_.size(); ++rank) save_rank(rank, directory, step, group.group());
  }
  void save_rank(std::uint32_t rank, const std::string& directory, std::uint64_t step, const SaveGroup& group) {
    all_[rank]->save_distributed(directory, rank, static_cast<std::uint32_t>(all_.size()), model_of(rank, step), {},
                                 state_at(step), zero(), group);
  }
  // The message of each rank's error.
  std::vector<std::string> wait() {
    std::vector<std::string> messages;
    for (const auto& rank : all_) messages.push_back(test::message_of([&] { rank->wait(); }));
    return messages;
  }
  AsyncCheckpointer& operator[](std::uint32_t rank) { return *all_[rank]; }

 private:
  std::vector<std::unique_ptr<AsyncCheckpointer>> all_;
};

TEST(SaveDistributed, WritesOneCheckpointOfAllRanks) {
  const test::TestDirectory directory;
  ThreadGroup group("id-1", 3);
  Ranks ranks(3);
  ranks.save(directory / "a", 5, group);
  EXPECT_THAT(ranks.wait(), ElementsAre("", "", ""));
  EXPECT_EQ(group.calls(), 6U);
  EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest"));
  const CheckpointInfo info = verify_checkpoint(directory / "a");
  EXPECT_EQ(info.save_id, "id-1");
  EXPECT_EQ(info.world_size, 3U);
  EXPECT_EQ(info.file_count, 3 * 3 + 1U);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const LoadedCheckpoint loaded = load_distributed_checkpoint(directory / "a", rank, 3);
    EXPECT_EQ(test::content_of(loaded.model), model_of(rank, 5).content());
    EXPECT_EQ(loaded.state, state_at(5));
    EXPECT_EQ(loaded.sharding->strategy, Sharding::Strategy::kZeroPartitioned);
    EXPECT_EQ(loaded.sharding->owned_params, std::vector<std::string>{"w." + std::to_string(rank)});
  }
}

TEST(SaveDistributed, IsLoadedByAsManyRanksAsSavedIt) {
  const test::TestDirectory directory;
  ThreadGroup group("id-1", 2);
  Ranks ranks(2);
  ranks.save(directory / "a", 5, group);
  ranks.wait();
  const auto world = failure(ErrorCode::kCheckpointWorld);
  EXPECT_EQ(caught([&] { load_distributed_checkpoint(directory / "a", 0, 1); }), world);
  EXPECT_EQ(caught([&] { load_distributed_checkpoint(directory / "a", 0, 3); }), world);
  EXPECT_EQ(caught([&] { load_distributed_checkpoint(directory / "a", 2, 2); }), world);
  EXPECT_EQ(caught([&] { load_checkpoint(directory / "a"); }), world);
  AsyncCheckpointer alone;
  alone.save(directory / "b", small_model(1), {}, state_at(1));
  alone.wait();
  EXPECT_EQ(caught([&] { load_distributed_checkpoint(directory / "b", 0, 1); }), world);
}

TEST(SaveDistributed, CommitsNothingIfOneRankFails) {
  for (const std::uint32_t failing : {0U, 1U}) {
    const test::TestDirectory directory;
    std::atomic<bool> fails = false;
    const std::string rank = "/" + checkpoint::rank_directory(failing) + "/";
    const test::SystemCalls calls([&](const Call& call) -> test::Reply {
      const bool is_met = fails && call.kind == Call::Kind::kSync && call.path.find(rank) != std::string::npos;
      return is_met ? test::Reply::failure(EIO) : true;
    });
    Ranks ranks(2);
    ThreadGroup first("id-1", 2), second("id-2", 2), third("id-3", 2);
    ranks.save(directory / "a", 1, first);
    EXPECT_THAT(ranks.wait(), ElementsAre("", ""));
    fails = true;
    ranks.save(directory / "a", 2, second);
    const auto messages = ranks.wait();
    EXPECT_THAT(messages[failing], HasSubstr("Input/output error"));
    EXPECT_THAT(messages[1 - failing], HasSubstr("another rank has failed"));
    EXPECT_EQ(verify_checkpoint(directory / "a").step, 1U);
    EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest"));
    fails = false;
    ranks.save(directory / "a", 3, third);
    EXPECT_THAT(ranks.wait(), ElementsAre("", ""));
    EXPECT_EQ(verify_checkpoint(directory / "a").step, 3U);
  }
}

TEST(SaveDistributed, ARankWithoutAThreadWritesBeforeItReturns) {
  const test::TestDirectory directory;
  Ranks ranks(2);
  ThreadGroup group("id-1", 2);
  ranks.save_rank(1, directory / "a", 5, group.group());
  {
    const test::ThreadLimit none(0);
    ranks.save_rank(0, directory / "a", 5, group.group());
    EXPECT_GT(none.refused(), 0);
    EXPECT_EQ(verify_checkpoint(directory / "a").step, 5U);
  }
  EXPECT_THAT(ranks.wait(), ElementsAre("", ""));
}

TEST(SaveDistributed, LetsNobodyWaitForARankThatCannotEvenCopy) {
  const test::TestDirectory directory;
  Ranks ranks(2);
  ThreadGroup group("id-1", 2);
  test::Model wrong;
  wrong.add("w", "float32", {2}, test::Bytes(7));
  EXPECT_EQ(
      caught([&] { ranks[0].save_distributed(directory / "a", 0, 2, wrong, {}, state_at(1), zero(), group.group()); }),
      failure(ErrorCode::kUsage));
  ranks.save_rank(1, directory / "a", 1, group.group());
  const auto messages = ranks.wait();
  EXPECT_EQ(messages[0], "");
  EXPECT_THAT(messages[1], HasSubstr("another rank has failed"));
  EXPECT_EQ(group.calls(), 4U);
  EXPECT_TRUE(test::entries_of(directory).empty());
}

TEST(SaveDistributed, TellsRanksOfDifferentSavesAndStepsApart) {
  const test::TestDirectory directory;
  {
    Ranks ranks(2);
    ThreadGroup group("id-1", 2);
    ranks.save_rank(0, directory / "a", 1, group.group());
    ranks.save_rank(1, directory / "a", 2, group.group());
    const auto messages = ranks.wait();
    EXPECT_THAT(messages[0], HasSubstr("step 2"));
    EXPECT_NE(messages[1], "");
  }
  {
    // They agree, but each means another save.
    Ranks ranks(2);
    ThreadGroup group("id-1", 2);
    SaveGroup other = group.group();
    other.save_id = "id-2";
    ranks.save_rank(0, directory / "a", 1, group.group());
    ranks.save_rank(1, directory / "a", 1, other);
    EXPECT_THAT(ranks.wait()[0], HasSubstr("rank 1 has not written it"));
  }
  EXPECT_FALSE(std::filesystem::exists(directory / "a"));
}

TEST(SaveDistributed, RefusesARankOfAnotherSaveThatWasPutIntoTheCheckpoint) {
  const test::TestDirectory directory;
  Ranks ranks(2);
  ThreadGroup first("id-1", 2), second("id-2", 2);
  ranks.save(directory / "a", 1, first);
  ranks.save(directory / "b", 2, second);
  ranks.wait();
  std::filesystem::remove_all(directory / "a/rank_1");
  std::filesystem::rename(directory / "b/rank_1", directory / "a/rank_1");
  EXPECT_EQ(caught([&] { load_distributed_checkpoint(directory / "a", 1, 2); }),
            failure(ErrorCode::kCheckpointDamaged));
  EXPECT_EQ(caught([&] { verify_checkpoint(directory / "a"); }), failure(ErrorCode::kCheckpointDamaged));
  EXPECT_EQ(caught([&] { verify_checkpoint(directory / "b"); }), failure(ErrorCode::kCheckpointDamaged));
}

TEST(SaveDistributed, RefusesASaveIdThatWasUsedBefore) {
  const test::TestDirectory directory;
  std::filesystem::create_directories(directory / checkpoint::temporary_name("a", "id-1") + "/rank_0");
  Ranks ranks(1);
  ThreadGroup group("id-1", 1);
  ranks.save(directory / "a", 1, group);
  EXPECT_THAT(ranks.wait()[0], HasSubstr("has been used before"));
  for (const char* id : {"", "a/b", "a b", "\n"}) {
    ThreadGroup wrong(id, 1);
    EXPECT_EQ(caught([&] { ranks.save(directory / "a", 1, wrong); }), failure(ErrorCode::kUsage)) << id;
    ranks.wait();
  }
}

TEST(SaveDistributed, RefusesMoreRanksThanRecordsCanHold) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  const auto save = [&](std::uint32_t rank, std::uint32_t world_size) {
    ThreadGroup group("id-1", 1);
    const auto outcome = caught([&] {
      checkpointer.save_distributed(directory / "a", rank, world_size, small_model(1), {}, state_at(1), zero(),
                                    group.group());
    });
    checkpointer.wait();
    return outcome;
  };
  EXPECT_EQ(save(0, kWorldSizeMax + 1), failure(ErrorCode::kUsage));
  EXPECT_EQ(save(0, 4'000'000'000), failure(ErrorCode::kUsage));
  EXPECT_EQ(save(0, 0), failure(ErrorCode::kUsage));
  EXPECT_EQ(save(4'000'000'000, 2), failure(ErrorCode::kUsage));
  EXPECT_TRUE(test::entries_of(directory).empty());
}

TEST(SaveDistributed, RefusesAGroupThatCannotAgree) {
  const test::TestDirectory directory;
  Ranks ranks(1);
  EXPECT_EQ(caught([&] { ranks.save_rank(0, directory / "a", 1, {"id-1", {}}); }), failure(ErrorCode::kUsage));
  EXPECT_THAT(ranks.wait(), ElementsAre(""));
}

TEST(SaveDistributed, ReportsAGroupThatIsBroken) {
  const test::TestDirectory directory;
  Ranks ranks(1);
  unsigned calls = 0;
  ranks.save_rank(0, directory / "a", 1, {"id-1", [&](bool) -> bool {
                                            ++calls;
                                            throw Error(ErrorCode::kResource, "a peer is gone");
                                          }});
  EXPECT_THAT(ranks.wait(), ElementsAre("a peer is gone"));
  EXPECT_EQ(calls, 1U);
  EXPECT_FALSE(std::filesystem::exists(directory / "a"));
}

// What is wrong with what the ranks find; empty if nothing is.
std::string what_two_ranks_miss(const std::string& directory, bool newest_only) {
  try {
    const auto newest = find_newest_checkpoint(directory);
    if (!newest) return "no checkpoint is left";
    if (newest_only && newest->step != 2) return "the newest checkpoint is gone";
    const auto latest = read_latest_checkpoint(directory);
    if (!latest) return "latest is gone";
    for (const std::string& name : {newest->directory, *latest}) {
      const std::uint64_t step = verify_checkpoint(name).step;
      if (newest_only && step != 2) return "latest names the old checkpoint";
      for (const std::uint32_t rank : {0U, 1U}) {
        const LoadedCheckpoint loaded = load_distributed_checkpoint(name, rank, 2);
        if (test::content_of(loaded.model) != model_of(rank, step).content()) return "the model is another one";
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// What stays after a start besides checkpoints and empty directories; empty if nothing does.
std::string what_is_left(const std::string& directory) {
  clean_stale_checkpoints(directory);
  std::set<std::string> committed;
  for (const CheckpointInfo& info : list_checkpoints(directory)) {
    if (info.status == CheckpointInfo::Status::kCommitted) committed.insert(info.directory);
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.is_directory() || committed.contains(entry.path()) || std::filesystem::is_empty(entry)) continue;
    return entry.path().string() + " is left";
  }
  return {};
}

TEST(SaveDistributed, CommitsByAMarker) {
  for (const bool fails : {false, true}) {
    const test::TestDirectory directory;
    CheckpointOptions options;
    options.commit = CommitMethod::kMarker;
    ThreadGroup group("id-1", 3);
    Ranks ranks(3, options);
    ranks.save_rank(0, directory / "a", 5, group.group());
    ranks.save_rank(1, directory / "a", 5, group.group());
    if (fails) {
      ranks[2].decline(group.group());
    } else {
      ranks.save_rank(2, directory / "a", 5, group.group());
    }
    const std::vector<std::string> messages = ranks.wait();
    if (fails) {
      EXPECT_THAT(messages, testing::Contains(HasSubstr("another rank has failed")));
      EXPECT_THAT(test::entries_of(directory), testing::IsEmpty());
      continue;
    }
    EXPECT_THAT(messages, ElementsAre("", "", ""));
    EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest"));
    EXPECT_EQ(verify_checkpoint(directory / "a").commit, CommitMethod::kMarker);
    EXPECT_EQ(test::content_of(load_distributed_checkpoint(directory / "a", 2, 3).model), model_of(2, 5).content());
  }
}

TEST(SaveDistributed, LosesNothingWhenThePowerGoesAtAnyCall) {
  CheckpointOptions options;
  options.threads = 1;
  const auto save = [&](const std::string& directory, std::uint64_t step) {
    Ranks ranks(2, options);
    ThreadGroup group("id-" + std::to_string(step), 2);
    ranks.save(directory, step, group);
    EXPECT_THAT(ranks.wait(), ElementsAre("", ""));
  };
  for (const auto& [new_name, commit] : {std::pair<std::string, CommitMethod>{"/old", CommitMethod::kRename},
                                         {"/new", CommitMethod::kRename},
                                         {"/new", CommitMethod::kMarker}}) {
    options.commit = commit;
    test::PowerLossScenario scenario;
    scenario.prepare = [&](const std::string& directory) { save(directory + "/old", 1); };
    scenario.change = [&, name = new_name](const std::string& directory) { save(directory + name, 2); };
    scenario.makes_names_durable = false;
    scenario.judge = [](const std::string& directory, const test::Outcome& outcome) {
      std::string wrong = what_two_ranks_miss(directory, outcome.is_finished);
      if (wrong.empty()) wrong = what_is_left(directory);
      return wrong.empty() ? what_two_ranks_miss(directory, outcome.is_finished) : wrong;
    };
    const test::PowerLossReport report = test::lose_power(scenario);
    EXPECT_THAT(report.bad, testing::IsEmpty());
    EXPECT_GT(report.states, 80U);
    // What `latest` says of one name is not changed by saving another checkpoint under it. Both ranks sync the
    // directory with the marker, and one sync is enough.
    const bool renames = commit == CommitMethod::kRename;
    if (renames && new_name == "/new") {
      EXPECT_THAT(report.unnoticed_syncs, testing::IsEmpty());
    } else if (!renames) {
      EXPECT_THAT(report.unnoticed_syncs, testing::Each(testing::Eq("sync directory /new")));
    }
  }
}

}  // namespace
}  // namespace tzmark
