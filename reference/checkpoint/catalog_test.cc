// Tests of finding, checking, keeping and clearing up checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/test_hooks.h"
#include "checkpoint/test_models.h"

namespace tzmark {
namespace {

using test::Call;
using test::caught;
using test::failure;
using test::small_model;
using test::small_optimizer;
using test::state_at;
using testing::ElementsAre;
using testing::HasSubstr;

std::string step_name(std::uint64_t step) { return "step-" + std::to_string(step); }

void save_steps(AsyncCheckpointer& checkpointer, const test::TestDirectory& directory,
                std::initializer_list<std::uint64_t> steps) {
  for (const std::uint64_t step : steps) {
    checkpointer.save(directory / step_name(step), small_model(step), small_optimizer(step), state_at(step));
  }
  checkpointer.wait();
}

std::vector<std::uint64_t> committed_steps(const test::TestDirectory& directory) {
  std::vector<std::uint64_t> steps;
  for (const CheckpointInfo& info : list_checkpoints(directory.name())) {
    if (info.status == CheckpointInfo::Status::kCommitted) steps.push_back(info.step);
  }
  return steps;
}

TEST(Catalog, FindsTheHighestStepWhateverTheOrderAndTheNames) {
  const test::TestDirectory directory;
  EXPECT_FALSE(find_newest_checkpoint(directory.name()));
  EXPECT_FALSE(read_latest_checkpoint(directory.name()));
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {9, 100, 20});
  EXPECT_THAT(committed_steps(directory), ElementsAre(9, 20, 100));
  EXPECT_EQ(find_newest_checkpoint(directory.name())->directory, directory / "step-100");
  EXPECT_EQ(read_latest_checkpoint(directory.name()), directory / "step-20");
}

TEST(Catalog, ListsWhatIsNotCommittedWithTheReason) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  std::filesystem::remove(directory / "step-1/commit.json");
  test::write_whole(directory / "step-2/commit.json", std::as_bytes(std::span("{}", 2)));
  std::filesystem::create_directory(directory / "other");
  std::filesystem::create_directory(directory / "a.tmp-1");
  const auto all = list_checkpoints(directory.name());
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].status, CheckpointInfo::Status::kTemporary);
  EXPECT_THAT(all[1].problem, HasSubstr("there is no commit.json"));
  EXPECT_THAT(all[2].problem, HasSubstr("version is missing"));
  EXPECT_FALSE(find_newest_checkpoint(directory.name()));
}

// Every byte of every file counts, and so does its size.
TEST(Catalog, FindsEveryDamageAndNamesTheFile) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1});
  const std::string checkpoint = directory / "step-1";
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "training_state.json"}) {
    const std::string file = checkpoint + "/" + name;
    const test::Bytes good = test::read_whole(file);
    const auto expect_found = [&](const test::Bytes& bytes) {
      test::write_whole(file, bytes);
      for (const bool from_device : {false, true}) {
        CheckpointReadOptions options;
        options.from_device = from_device;
        EXPECT_EQ(caught([&] { verify_checkpoint(checkpoint, options); }), failure(ErrorCode::kCheckpointDamaged));
      }
      EXPECT_THAT(test::message_of([&] { load_checkpoint(checkpoint); }), HasSubstr(name));
    };
    for (std::size_t at = 0; at < good.size(); at += good.size() / 20) {
      test::Bytes damaged = good;
      damaged[at] ^= std::byte{1};
      expect_found(damaged);
    }
    expect_found(test::Bytes(good.begin(), good.end() - 1));
    test::Bytes longer = good;
    longer.push_back({});
    expect_found(longer);
    expect_found({});
    std::filesystem::remove(file);
    EXPECT_EQ(caught([&] { load_checkpoint(checkpoint); }), failure(ErrorCode::kCheckpointDamaged)) << name;
    test::write_whole(file, good);
    verify_checkpoint(checkpoint);
  }
}

TEST(Catalog, FindsEveryDamageOfAShardedCheckpoint) {
  const test::TestDirectory directory;
  test::ThreadGroup group("id-1", 2);
  {
    AsyncCheckpointer ranks[2];
    for (const std::uint32_t rank : {0U, 1U}) {
      ranks[rank].save_distributed(directory / "a", rank, 2, small_model(1), small_optimizer(1), state_at(1), {},
                                   group.group());
    }
    for (AsyncCheckpointer& rank : ranks) rank.wait();
  }
  const auto expect_found = [&](const std::string& name) {
    const std::string message = test::message_of([&] { verify_checkpoint(directory / "a"); });
    EXPECT_THAT(message, HasSubstr(name));
    EXPECT_EQ(caught([&] { verify_checkpoint(directory / "a"); }), failure(ErrorCode::kCheckpointDamaged)) << message;
  };
  for (const char* name : {"sharding_meta.json", "rank_0/manifest.json", "rank_1/manifest.json",
                           "rank_1/model.safetensors", "rank_1/optimizer.safetensors", "rank_1/training_state.json"}) {
    const std::string file = directory / "a/" + name;
    const test::Bytes good = test::read_whole(file);
    for (std::size_t at = 0; at < good.size(); at += good.size() / 10) {
      test::Bytes damaged = good;
      damaged[at] ^= std::byte{1};
      test::write_whole(file, damaged);
      expect_found(name);
    }
    test::write_whole(file, std::span(good).first(good.size() - 1));
    expect_found(name);
    std::filesystem::remove(file);
    expect_found(name);
    test::write_whole(file, good);
    verify_checkpoint(directory / "a");
  }
}

TEST(Catalog, NoticesAFileOfAnotherSave) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  std::filesystem::copy_file(directory / "step-1/model.safetensors", directory / "step-2/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(caught([&] { load_checkpoint(directory / "step-2"); }), failure(ErrorCode::kCheckpointDamaged));
}

// What the disk got was wrong already, but not what was hashed.
TEST(Catalog, FindsWhatWasDamagedOnItsWayToTheDisk) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.file_system = std::make_shared<test::HookedFiles>(system_file_system(), [&](const Call& call) {
    if (call.kind == Call::Kind::kSync && call.what.ends_with("model.safetensors")) {
      const std::string name = call.what.substr(std::string("sync ").size());
      test::Bytes bytes = test::read_whole(name);
      bytes[bytes.size() - 3] ^= std::byte{0x10};
      test::write_whole(name, bytes);
    }
    return true;
  });
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {1});
  EXPECT_EQ(caught([&] { verify_checkpoint(directory / "step-1"); }), failure(ErrorCode::kCheckpointDamaged));
}

TEST(Retention, KeepsTheLatestAndEveryMultiple) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention = {2, 30};
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {10, 20, 30, 40, 50, 60, 70});
  EXPECT_THAT(committed_steps(directory), ElementsAre(30, 60, 70));
  EXPECT_THAT(directory.entries(), ElementsAre("latest", "step-30", "step-60", "step-70"));
}

TEST(Retention, NeverDeletesTheOneJustWrittenOrTheNewest) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention = {1, 0};
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {50});
  save_steps(checkpointer, directory, {10});
  EXPECT_THAT(committed_steps(directory), ElementsAre(10, 50));
  save_steps(checkpointer, directory, {20});
  EXPECT_THAT(committed_steps(directory), ElementsAre(20, 50));
}

TEST(Retention, DeletesNothingIfTheNewOneIsNotWholeOnDisk) {
  const test::TestDirectory directory;
  bool damages = false;
  CheckpointOptions options;
  options.retention = {1, 0};
  options.file_system = std::make_shared<test::HookedFiles>(system_file_system(), [&](const Call& call) {
    if (damages && call.kind == Call::Kind::kSync && call.what.ends_with("model.safetensors")) {
      test::write_whole(call.what.substr(std::string("sync ").size()), test::Bytes(50));
    }
    return true;
  });
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {1});
  damages = true;
  checkpointer.save(directory / "step-2", small_model(2), {}, state_at(2));
  EXPECT_THAT(test::message_of([&] { checkpointer.wait(); }),
              testing::StartsWith((directory / "step-2") + ": the checkpoint itself is durable"));
  EXPECT_EQ(verify_checkpoint(directory / "step-1").step, 1U);
}

TEST(CleanStale, RemovesWhatDeadSavesLeftAndNothingElse) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1});
  std::filesystem::create_directories(directory / "step-2.tmp-dead/rank_0");
  test::write_whole(directory / "step-2.tmp-dead/rank_0/model.safetensors", test::Bytes(10));
  test::write_whole(directory / "notes.tmp-1", test::Bytes(10));
  std::filesystem::create_directory(directory / "mine");
  std::filesystem::create_directory(directory / "step-3.tmp-alive");
  {
    const auto alive = system_file_system()->lock_shared(directory / "step-3.tmp-alive");
    const auto also = system_file_system()->lock_shared(directory / "step-3.tmp-alive");
    ASSERT_TRUE(alive && also);
    EXPECT_THAT(clean_stale_checkpoints(directory.name()), ElementsAre(directory / "step-2.tmp-dead"));
  }
  EXPECT_THAT(clean_stale_checkpoints(directory.name()), ElementsAre(directory / "step-3.tmp-alive"));
  EXPECT_THAT(directory.entries(), ElementsAre("latest", "mine", "notes.tmp-1", "step-1"));
  EXPECT_EQ(verify_checkpoint(directory / "step-1").step, 1U);
}

TEST(CleanStale, LeavesAloneWhatNoSaveMakes) {
  const test::TestDirectory directory;
  std::filesystem::create_directories(directory / "a.tmp-1/rank_0/mine");
  std::filesystem::create_directories(directory / "b.tmp-notes");
  test::write_whole(directory / "b.tmp-notes/model.safetensors", test::Bytes(10));
  test::write_whole(directory / "b.tmp-notes/thesis.txt", test::Bytes(10));
  std::filesystem::create_directories(directory / "c.tmp-1/rank_x");
  EXPECT_THAT(clean_stale_checkpoints(directory.name()), ElementsAre());
  EXPECT_THAT(directory.entries(), ElementsAre("a.tmp-1", "b.tmp-notes", "c.tmp-1"));
}

// At every call, also while the temporary name is that of the old checkpoint. Only a directory that was made, and not
// locked yet, looks like a dead save's; then the save makes another one.
TEST(CleanStale, LeavesASaveThatGoesOnAlone) {
  const test::TestDirectory directory;
  std::filesystem::create_directory(directory / "run");
  unsigned locks = 0, calls = 0;
  std::size_t cleaned = 0;
  CheckpointOptions options;
  options.file_system = std::make_shared<test::HookedFiles>(system_file_system(), [&](const Call& call) {
    ++calls;
    if (call.kind == Call::Kind::kLock && ++locks > 2) return true;
    cleaned += clean_stale_checkpoints(directory / "run").size();
    return true;
  });
  options.threads = 1;
  AsyncCheckpointer checkpointer(options);
  checkpointer.save(directory / "run/a", small_model(1), {}, state_at(1));
  checkpointer.wait();
  EXPECT_EQ(cleaned, 2U);
  checkpointer.save(directory / "run/a", small_model(2), {}, state_at(2));
  checkpointer.wait();
  EXPECT_EQ(cleaned, 2U);
  EXPECT_GT(calls, 40U);
  EXPECT_EQ(verify_checkpoint(directory / "run/a").step, 2U);
}

TEST(CleanStale, MakesNoSaveFailWhileItHoldsTheNewDirectory) {
  const test::TestDirectory directory;
  unsigned locks = 0;
  std::unique_ptr<DirectoryLock> cleaner;
  CheckpointOptions options;
  options.file_system = std::make_shared<test::HookedFiles>(system_file_system(), [&](const Call& call) {
    if (call.kind != Call::Kind::kLock) return true;
    if (++locks == 1) cleaner = system_file_system()->lock_alone(call.what.substr(std::string("lock ").size()));
    if (locks == 3) cleaner.reset();
    return true;
  });
  AsyncCheckpointer checkpointer(options);
  checkpointer.save(directory / "a", small_model(1), {}, state_at(1));
  checkpointer.wait();
  EXPECT_GE(locks, 3U);
  EXPECT_EQ(verify_checkpoint(directory / "a").step, 1U);
}

TEST(Catalog, PassesOverWhatIsGoneByNow) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  CheckpointReadOptions options;
  options.file_system = std::make_shared<test::HookedFiles>(system_file_system(), [&](const Call& call) {
    if (call.what == "open " + (directory / "step-1/commit.json")) {
      std::filesystem::rename(directory / "step-1", directory / "step-1.tmp-old");
    }
    return true;
  });
  const auto all = list_checkpoints(directory.name(), options);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].step, 2U);
}

TEST(Catalog, RefusesALatestThatNamesNoCheckpoint) {
  const test::TestDirectory directory;
  for (const char* name : {".", "..", "a/b", "", "a/", "latest", "a.tmp-1"}) {
    test::write_whole(directory / "latest", std::as_bytes(std::span(std::string_view(name))));
    EXPECT_EQ(caught([&] { read_latest_checkpoint(directory.name()); }), failure(ErrorCode::kCheckpointUncommitted))
        << name;
  }
}

}  // namespace
}  // namespace tzmark
