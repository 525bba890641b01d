// Tests of finding, checking, keeping and clearing up checkpoints.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/names.h"
#include "checkpoint/records.h"
#include "os/directory.h"
#include "testing/disk/power_loss.h"
#include "testing/faults/system_calls.h"
#include "testing/files/checkpoint_models.h"
#include "testing/files/other_user.h"

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

// The temporary name that a save of this id gives to a checkpoint.
std::string marked(const test::TestDirectory& directory, const std::string& name, const std::string& id) {
  return directory / checkpoint::temporary_name(name, id);
}

void damage(const std::string& checkpoint) {
  test::Bytes bytes = test::read_whole(checkpoint + "/model.safetensors");
  bytes.back() ^= std::byte{1};
  test::write_whole(checkpoint + "/model.safetensors", bytes);
}

// The names of directories.
std::vector<std::string> checkpoints(const test::TestDirectory& directory) {
  std::vector<std::string> names = test::entries_of(directory);
  std::erase_if(names, [&](const std::string& name) { return !std::filesystem::is_directory(directory / name); });
  return names;
}

// In the order of their commits.
std::vector<std::uint64_t> committed_steps(const test::TestDirectory& directory) {
  std::vector<std::uint64_t> steps;
  for (const CheckpointInfo& info : list_checkpoints(directory.name())) {
    if (info.status == CheckpointInfo::Status::kCommitted) steps.push_back(info.step);
  }
  return steps;
}

TEST(Catalog, FindsTheOneCommittedLastWhateverItsStepAndName) {
  const test::TestDirectory directory;
  EXPECT_FALSE(find_newest_checkpoint(directory.name()));
  EXPECT_FALSE(read_latest_checkpoint(directory.name()));
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {9, 100, 20});
  EXPECT_THAT(committed_steps(directory), ElementsAre(9, 100, 20));
  EXPECT_EQ(find_newest_checkpoint(directory.name())->directory, directory / "step-20");
  EXPECT_EQ(read_latest_checkpoint(directory.name()), directory / "step-20");
  // Another program does not know the first one's numbers.
  AsyncCheckpointer other;
  save_steps(other, directory, {10});
  EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 10U);
  EXPECT_EQ(read_latest_checkpoint(directory.name()), directory / "step-10");
  // Of a checkpoint and its copy, the original is the newest.
  std::filesystem::copy(directory / "step-10", directory / "zzz");
  EXPECT_EQ(find_newest_checkpoint(directory.name())->directory, directory / "step-10");
  std::filesystem::remove_all(directory / "step-10");
  EXPECT_EQ(find_newest_checkpoint(directory.name())->directory, directory / "zzz");
  EXPECT_FALSE(find_newest_checkpoint(directory.name())->is_original);
}

template <typename Change>
void change_commit(const std::string& checkpoint, Change&& change) {
  const test::Bytes bytes = test::read_whole(checkpoint + "/commit.json");
  auto record = checkpoint::parse_commit({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  change(record.origin);
  const std::string text = checkpoint::serialize_commit(record);
  test::write_whole(checkpoint + "/commit.json", std::as_bytes(std::span(text)));
}

// As a release left it that recorded no order.
void forget_order(const std::string& checkpoint) {
  change_commit(checkpoint, [](CheckpointOrigin& origin) { origin = {}; });
}

TEST(Catalog, OrdersCheckpointsOfOlderReleasesByStepAndBeforeAllOthers) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {30, 10, 20, 5});
  for (const std::uint64_t step : {30, 10, 20}) forget_order(directory / step_name(step));
  EXPECT_THAT(committed_steps(directory), ElementsAre(10, 20, 30, 5));
  std::filesystem::remove_all(directory / "step-5");
  EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 30U);
  EXPECT_EQ(load_checkpoint(directory / "step-30").state.step, 30U);
  AsyncCheckpointer next;
  next.continue_from(find_newest_checkpoint(directory.name())->save_id);
  save_steps(next, directory, {31});
  const CheckpointInfo newest = find_newest_checkpoint(directory.name()).value();
  EXPECT_EQ(newest.step, 31U);
  EXPECT_EQ(newest.origin.parent, load_checkpoint(directory / "step-30").save_id);
}

// 10, 20 and 30, from which a program continues at 20.
TEST(Catalog, TellsTheLineOfTheNewestFromWhatItsRunLeft) {
  const test::TestDirectory directory;
  AsyncCheckpointer before;
  save_steps(before, directory, {10, 20, 30});
  for (const CheckpointInfo& info : list_checkpoints(directory.name())) EXPECT_TRUE(info.is_on_line) << info.step;
  AsyncCheckpointer after;
  after.continue_from(load_checkpoint(directory / "step-20").save_id);
  save_steps(after, directory, {21});
  std::map<std::uint64_t, bool> on_line;
  for (const CheckpointInfo& info : list_checkpoints(directory.name())) on_line[info.step] = info.is_on_line;
  EXPECT_EQ(on_line, (std::map<std::uint64_t, bool>{{10, true}, {20, true}, {21, true}, {30, false}}));
  const CheckpointInfo newest = find_newest_checkpoint(directory.name()).value();
  EXPECT_EQ(newest.origin.name, "step-21");
  EXPECT_EQ(newest.origin.sequence, 4U);
  EXPECT_EQ(newest.origin.parent, load_checkpoint(directory / "step-20").save_id);
  EXPECT_EQ(newest.origin.pid, static_cast<std::uint64_t>(::getpid()));
  // The same checkpointer goes back once more, to before its own saves.
  after.continue_from(load_checkpoint(directory / "step-10").save_id);
  save_steps(after, directory, {11, 12});
  on_line.clear();
  for (const CheckpointInfo& info : list_checkpoints(directory.name())) on_line[info.step] = info.is_on_line;
  EXPECT_EQ(on_line,
            (std::map<std::uint64_t, bool>{{10, true}, {11, true}, {12, true}, {20, false}, {21, false}, {30, false}}));
}

TEST(Catalog, NamesAProcessThatCommittedSinceTheLastSave) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer, other;
  save_steps(checkpointer, directory, {1});
  save_steps(other, directory, {2});
  change_commit(directory / "step-2", [](CheckpointOrigin& origin) { origin.host = "host-a", ++origin.pid; });
  checkpointer.save(directory / "step-3", small_model(3), {}, state_at(3));
  EXPECT_THAT(checkpointer.wait().warnings, ElementsAre(HasSubstr("step-2: committed by process")));
  checkpointer.save(directory / "step-4", small_model(4), {}, state_at(4));
  EXPECT_THAT(checkpointer.wait().warnings, ElementsAre());
}

// 22 and 21 continue from 20, which a program took up again after 30.
TEST(Catalog, FindsTheNewestIntactCheckpointOfTheLineFirst) {
  const test::TestDirectory directory;
  EXPECT_FALSE(find_intact_checkpoint(directory.name()).found);
  AsyncCheckpointer before;
  save_steps(before, directory, {10, 20, 30});
  AsyncCheckpointer after;
  after.continue_from(load_checkpoint(directory / "step-20").save_id);
  save_steps(after, directory, {21, 22});
  std::filesystem::create_directory(directory / "half");
  test::write_whole(directory / "half/training_state.json", test::Bytes(1));
  std::size_t passed_over = 1;
  for (const std::uint64_t step : {22, 21, 20, 10, 30}) {
    const IntactCheckpoint intact = find_intact_checkpoint(directory.name());
    ASSERT_TRUE(intact.found);
    EXPECT_EQ(intact.found->step, step);
    EXPECT_EQ(intact.passed_over.size(), passed_over++);
    EXPECT_THAT(intact.passed_over, testing::Contains(HasSubstr("passed over " + (directory / "half: there is no"))));
    damage(directory / step_name(step));
  }
  EXPECT_EQ(caught([&] { find_intact_checkpoint(directory.name()); }), failure(ErrorCode::kCheckpointDamaged));
  EXPECT_THAT(test::message_of([&] { find_intact_checkpoint(directory.name()); }),
              HasSubstr("none of 5 checkpoints is intact; passed over " + (directory / "step-22: ")));
}

TEST(Catalog, PassesOverNothingForWantOfDescriptors) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  bool is_listed = false;
  const test::SystemCalls calls([&](const Call& call) -> test::Reply {
    is_listed = is_listed || call.path.ends_with("model.safetensors");
    return is_listed && call.function == "openat" ? test::Reply::failure(EMFILE) : true;
  });
  EXPECT_EQ(caught([&] { find_intact_checkpoint(directory.name()); }), failure(ErrorCode::kOpenFailed));
}

// A run without checkpoints would otherwise stay in every later commit.
TEST(Catalog, RecordsNoRunsThatAreGone) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 2;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    AsyncCheckpointer checkpointer(options);
    if (step > 1) checkpointer.continue_from(find_newest_checkpoint(directory.name())->save_id);
    save_steps(checkpointer, directory, {step});
  }
  EXPECT_THAT(committed_steps(directory), ElementsAre(19, 20));
  EXPECT_LE(find_newest_checkpoint(directory.name())->origin.line.size(), 2U);
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
  EXPECT_EQ(caught([&] { find_newest_checkpoint(directory.name()); }), failure(ErrorCode::kCheckpointDamaged));
}

// Of several branches, another one would be loaded.
TEST(Catalog, TakesNoOlderCheckpointForTheNewestThatIsDamaged) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  const std::string commit = directory / "step-2/commit.json";
  const test::Bytes whole = test::read_whole(commit);
  test::Bytes flipped = whole;
  flipped[flipped.size() / 2] ^= std::byte{1};
  test::write_whole(commit, flipped);
  const auto expect_damage = [&] {
    EXPECT_EQ(caught([&] { find_newest_checkpoint(directory.name()); }), failure(ErrorCode::kCheckpointDamaged));
    EXPECT_THAT(test::message_of([&] { find_newest_checkpoint(directory.name()); }),
                testing::StartsWith(directory / "step-2" + ": it may be the newest checkpoint, and is damaged: "));
    const IntactCheckpoint intact = find_intact_checkpoint(directory.name());
    ASSERT_TRUE(intact.found);
    EXPECT_EQ(intact.found->step, 1U);
    EXPECT_THAT(intact.passed_over, ElementsAre(HasSubstr("passed over " + directory / "step-2")));
  };
  expect_damage();
  // Also where nothing says that it was the newest.
  std::filesystem::rename(directory / "latest", directory / "before");
  expect_damage();
  std::filesystem::rename(directory / "before", directory / "latest");
  std::filesystem::remove(commit);
  expect_damage();
  test::write_whole(directory / "latest", std::as_bytes(std::span(std::string_view("step-1\n"))));
  EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 1U);
  // Other programs have files of this name.
  std::filesystem::create_directory(directory / "other");
  test::write_whole(directory / "other/commit.json", test::Bytes(10));
  EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 1U);
  test::write_whole(commit, whole);
  EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 2U);
}

TEST(Catalog, ReadsACheckpointAgainThatIsReplacedMeanwhile) {
  const auto read = {+[](const std::string& name) { return verify_checkpoint(name).step; },
                     +[](const std::string& name) { return load_checkpoint(name).state.step; }};
  for (const auto& read_step : read) {
    const test::TestDirectory directory;
    AsyncCheckpointer checkpointer;
    checkpointer.save(directory / "a", small_model(1), {}, state_at(1));
    checkpointer.wait();
    bool replaced = false;
    const test::SystemCalls calls([&](const Call& call) {
      if (replaced || !call.what.starts_with("open ") || !call.path.ends_with("a/training_state.json")) return true;
      replaced = true;
      checkpointer.save(directory / "a", small_model(2), {}, state_at(2));
      checkpointer.wait();
      return true;
    });
    EXPECT_EQ(read_step(directory / "a"), 2U);
    EXPECT_TRUE(replaced);
  }
}

TEST(Catalog, FindsAnIntactCheckpointWhileRetentionDeletesThoseBefore) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {1});
  bool deleted = false;
  const test::SystemCalls calls([&](const Call& call) {
    if (deleted || !call.what.starts_with("open ") || !call.path.ends_with("step-1/training_state.json")) return true;
    deleted = true;
    save_steps(checkpointer, directory, {2});
    return true;
  });
  const IntactCheckpoint intact = find_intact_checkpoint(directory.name());
  EXPECT_TRUE(deleted);
  ASSERT_TRUE(intact.found);
  EXPECT_EQ(intact.found->step, 2U);
  EXPECT_THAT(intact.passed_over, testing::IsEmpty());
}

// Two savers: the one that took the lower number is the later one to move `latest`.
TEST(Latest, NamesTheCheckpointThatWasCommittedLast) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer, other;
  bool saved = false;
  const test::SystemCalls calls([&](const Call& call) {
    if (saved || !call.function.starts_with("renameat") || call.new_path != directory / "latest") return true;
    saved = true;
    save_steps(other, directory, {9});
    return true;
  });
  save_steps(checkpointer, directory, {1});
  EXPECT_TRUE(saved);
  EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 9U);
  EXPECT_EQ(read_latest_checkpoint(directory.name()), directory / "step-9");
  EXPECT_THAT(test::entries_of(directory), ElementsAre("latest", "step-1", "step-9"));
  EXPECT_FALSE(std::filesystem::exists(directory / "step-1/latest"));
}

TEST(Latest, IsLeftAloneIfItIsADirectory) {
  const test::TestDirectory directory;
  std::filesystem::create_directory(directory / "latest");
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  AsyncCheckpointer checkpointer(options);
  for (const std::uint64_t step : {1, 2}) {
    checkpointer.save(directory / step_name(step), small_model(step), {}, state_at(step));
    EXPECT_THAT(checkpointer.wait().warnings, ElementsAre(HasSubstr("latest: it is a directory")));
  }
  EXPECT_THAT(test::entries_of(directory), ElementsAre("latest", "step-2"));
  EXPECT_FALSE(std::filesystem::exists(directory / "step-2/latest"));
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
  const test::SystemCalls calls([](const Call& call) {
    if (call.kind == Call::Kind::kSync && call.path.ends_with("model.safetensors")) {
      test::Bytes bytes = test::read_whole(call.path);
      bytes[bytes.size() - 3] ^= std::byte{0x10};
      test::write_whole(call.path, bytes);
    }
    return true;
  });
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1});
  EXPECT_EQ(caught([&] { verify_checkpoint(directory / "step-1"); }), failure(ErrorCode::kCheckpointDamaged));
}

TEST(Retention, KeepsTheLatestAndEveryMultiple) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 2;
  options.retention.keep_every = 30;
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {10, 20, 30, 40, 50, 60, 70});
  EXPECT_THAT(committed_steps(directory), ElementsAre(30, 60, 70));
  EXPECT_THAT(test::entries_of(directory), ElementsAre("latest", "step-30", "step-60", "step-70"));
}

TEST(Retention, CountsTheOnesCommittedLastWhateverTheirSteps) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {50});
  save_steps(checkpointer, directory, {10});
  EXPECT_THAT(committed_steps(directory), ElementsAre(10));
  save_steps(checkpointer, directory, {20});
  EXPECT_THAT(committed_steps(directory), ElementsAre(20));
}

// Otherwise each new checkpoint would be deleted by the next one, and a restart would load what was given up.
TEST(Retention, KeepsTheProgressOfARunThatWentBack) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 2;
  {
    AsyncCheckpointer before;
    save_steps(before, directory, {10, 20, 30});
  }
  AsyncCheckpointer after(options);
  after.continue_from(load_checkpoint(directory / "step-20").save_id);
  after.save(directory / "step-21", small_model(21), {}, state_at(21));
  EXPECT_THAT(after.wait().warnings, ElementsAre(HasSubstr("step-30: not deleted, as all of its run")));
  EXPECT_THAT(committed_steps(directory), ElementsAre(20, 30, 21));
  after.save(directory / "step-22", small_model(22), {}, state_at(22));
  EXPECT_THAT(after.wait().warnings, ElementsAre());
  EXPECT_THAT(committed_steps(directory), ElementsAre(30, 21, 22));
  save_steps(after, directory, {23});
  EXPECT_THAT(committed_steps(directory), ElementsAre(30, 22, 23));
  EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 23U);
  EXPECT_EQ(read_latest_checkpoint(directory.name()), directory / "step-23");
  // Within one checkpointer.
  after.continue_from(load_checkpoint(directory / "step-22").save_id);
  save_steps(after, directory, {24});
  EXPECT_THAT(committed_steps(directory), ElementsAre(30, 22, 23, 24));
  save_steps(after, directory, {25});
  EXPECT_THAT(committed_steps(directory), ElementsAre(30, 23, 24, 25));
}

// Copies, renamed checkpoints and those of other runs stay.
TEST(Retention, DeletesOnlyWhatThisRunSavedUnderThisName) {
  const test::TestDirectory directory;
  {
    AsyncCheckpointer other;
    save_steps(other, directory, {1, 2});
    forget_order(directory / "step-1");
  }
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {3, 4});
  std::filesystem::copy(directory / "step-4", directory / "best");
  std::filesystem::rename(directory / "step-4", directory / "kept");
  save_steps(checkpointer, directory, {5, 6});
  std::filesystem::copy(directory / "step-6", directory / "step-4");
  save_steps(checkpointer, directory, {7});
  EXPECT_THAT(checkpoints(directory), ElementsAre("best", "kept", "step-1", "step-2", "step-4", "step-7"));
  for (const std::string& name : checkpoints(directory)) verify_checkpoint(directory / name);
}

TEST(Retention, DeletesNothingThatTookAName) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {1});
  AsyncCheckpointer other;
  save_steps(other, directory, {9});
  // In place of the checkpoint when it was listed already.
  bool is_verified = false, swapped = false;
  const test::SystemCalls calls([&](const Call& call) {
    is_verified = is_verified || (call.kind == Call::Kind::kRead && call.path.ends_with("step-2/model.safetensors"));
    if (swapped || !is_verified || call.what != "open " + (directory / "step-1")) return true;
    std::filesystem::remove_all(directory / "step-1");
    std::filesystem::rename(directory / "step-9", directory / "step-1");
    return swapped = true;
  });
  checkpointer.save(directory / "step-2", small_model(2), {}, state_at(2));
  checkpointer.wait();
  EXPECT_TRUE(swapped);
  EXPECT_THAT(checkpoints(directory), ElementsAre("step-1", "step-2"));
  EXPECT_EQ(verify_checkpoint(directory / "step-1").step, 9U);
}

// When the commit.json of the old one was read already.
TEST(Retention, DeletesNothingThatReplacedACheckpoint) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  AsyncCheckpointer checkpointer(options), other;
  save_steps(checkpointer, directory, {1});
  bool replaced = false;
  const test::SystemCalls calls([&](const Call& call) {
    if (replaced || !call.function.starts_with("renameat") || call.path != directory / "step-1") return true;
    replaced = true;
    other.save(directory / "step-1", small_model(9), {}, state_at(9));
    other.wait();
    return true;
  });
  checkpointer.save(directory / "step-2", small_model(2), {}, state_at(2));
  EXPECT_THAT(checkpointer.wait().warnings, testing::IsEmpty());
  EXPECT_TRUE(replaced);
  EXPECT_THAT(checkpoints(directory), ElementsAre("step-1", "step-2"));
  EXPECT_EQ(verify_checkpoint(directory / "step-1").step, 9U);
  EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 9U);
}

TEST(Retention, KeepsWhatIsProtectedAndWhatTheCallerKeeps) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  options.retention.protect = {"step-1", "best"};
  std::uint64_t best = 2;
  bool fails = false;
  options.retention.keep = [&](const CheckpointInfo& info, const TrainingState& state) {
    if (fails) throw std::runtime_error("no metric");
    EXPECT_EQ(info.step, state.step);
    EXPECT_EQ(state.metadata.at("run"), "a");
    return info.step == best;
  };
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {1, 2, 3, 4});
  EXPECT_THAT(committed_steps(directory), ElementsAre(1, 2, 4));
  // Those between them were deleted, and it still belongs to the run.
  best = 4;
  save_steps(checkpointer, directory, {5, 6});
  EXPECT_THAT(committed_steps(directory), ElementsAre(1, 4, 6));
  fails = true;
  checkpointer.save(directory / "step-7", small_model(7), {}, state_at(7));
  EXPECT_THROW(checkpointer.wait(), std::runtime_error);
  EXPECT_THAT(committed_steps(directory), ElementsAre(1, 4, 6, 7));
}

// It would wait for itself.
TEST(Retention, DoesNotLetTheCallerCallTheCheckpointerFromKeep) {
  const test::TestDirectory directory;
  AsyncCheckpointer* called = nullptr;
  unsigned refused = 0;
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  options.retention.keep = [&](const CheckpointInfo& info, const TrainingState&) {
    const std::vector<std::function<void()>> calls = {
        [&] { called->wait(); },
        [&] { called->reserve(1); },
        [&] { called->release(); },
        [&] { called->claim(directory.name()); },
        [&] { called->continue_from(info.save_id); },
        [&] { called->save(directory / "step-9", small_model(9), {}, state_at(9)); },
    };
    for (const auto& call : calls) refused += caught(call) == failure(ErrorCode::kUsage);
    AsyncCheckpointer().wait();
    return false;
  };
  AsyncCheckpointer checkpointer(options);
  called = &checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  EXPECT_EQ(refused, 6U);
  EXPECT_THAT(committed_steps(directory), ElementsAre(2));
}

// As when another run or a person deletes the same checkpoints.
TEST(Retention, TakesAbsenceForSuccessAtEveryCall) {
  unsigned at = 0;
  for (bool through = false; !through; ++at) {
    const test::TestDirectory directory(test::fastest_directory());
    CheckpointOptions options;
    options.threads = 1;
    options.retention.keep_latest = 2;
    AsyncCheckpointer checkpointer(options);
    save_steps(checkpointer, directory, {1, 2});
    unsigned calls = 0;
    const test::SystemCalls calls_of_others([&](const Call&) {
      if (calls++ != at) return true;
      for (const char* name : {"step-1", "step-2"}) std::filesystem::remove_all(directory / name);
      return true;
    });
    checkpointer.save(directory / "step-3", small_model(3), small_optimizer(3), state_at(3));
    EXPECT_THAT(checkpointer.wait().warnings, ElementsAre()) << "call " << at;
    through = calls <= at;
    const std::vector<std::string> left = checkpoints(directory);
    EXPECT_EQ(left, through ? (std::vector<std::string>{"step-2", "step-3"}) : std::vector<std::string>{"step-3"});
  }
  EXPECT_GT(at, 40U);
}

TEST(Retention, RefusesNamesThatProtectNothing) {
  for (const char* name : {"", "run/step-1", "step-1/"}) {
    CheckpointOptions options;
    options.retention.keep_latest = 1;
    options.retention.protect = {name};
    EXPECT_EQ(caught([&] { options.check(); }), failure(ErrorCode::kUsage)) << name;
  }
  CheckpointOptions options;
  options.retention.protect = {"step-1"};
  EXPECT_EQ(caught([&] { options.check(); }), failure(ErrorCode::kUsage));
}

TEST(Retention, DeletesNothingIfTheNewOneIsNotWholeOnDisk) {
  const test::TestDirectory directory;
  bool damages = false;
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  const test::SystemCalls calls([&](const Call& call) {
    if (damages && call.kind == Call::Kind::kSync && call.path.ends_with("model.safetensors")) {
      test::write_whole(call.path, test::Bytes(50));
    }
    return true;
  });
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {1});
  damages = true;
  checkpointer.save(directory / "step-2", small_model(2), {}, state_at(2));
  EXPECT_THAT(
      test::message_of([&] { checkpointer.wait(); }),
      testing::StartsWith((directory / "step-2") + ": older checkpoints kept: the new one failed verification"));
  EXPECT_EQ(verify_checkpoint(directory / "step-1").step, 1U);
}

// Three damaged checkpoints are newer than the only good one before this save.
TEST(Retention, CountsOnlyCheckpointsThatAreWhole) {
  const auto damages = [](const std::string& checkpoint, int how) {
    if (how == 0) return damage(checkpoint);
    if (how == 1) return std::filesystem::resize_file(checkpoint + "/model.safetensors", 10);
    std::filesystem::remove(checkpoint + "/model.safetensors");
  };
  for (const bool same_process : {false, true}) {
    const test::TestDirectory directory;
    CheckpointOptions options;
    options.retention.keep_latest = 2;
    AsyncCheckpointer before, checkpointer(options);
    save_steps(before, directory, {1, 2, 3, 4, 5});
    checkpointer.continue_from(find_newest_checkpoint(directory.name())->save_id);
    for (const int step : {3, 4, 5}) damages(directory / step_name(static_cast<std::uint64_t>(step)), step - 3);
    checkpointer.save(directory / "step-6", small_model(6), {}, state_at(6));
    EXPECT_EQ(checkpointer.wait().warnings.size(), 3U);
    EXPECT_THAT(committed_steps(directory), ElementsAre(2, 3, 4, 5, 6));
    // What has been verified is only looked at from then on.
    if (same_process) {
      damages(directory / "step-6", 1);
    } else {
      damages(directory / "step-6", 0);
    }
    AsyncCheckpointer fresh(options);
    fresh.continue_from(find_newest_checkpoint(directory.name())->save_id);
    AsyncCheckpointer& next = same_process ? checkpointer : fresh;
    next.save(directory / "step-7", small_model(7), {}, state_at(7));
    EXPECT_THAT(next.wait().warnings, testing::Contains(HasSubstr("step-6: kept, and not counted by retention: ")));
    EXPECT_THAT(committed_steps(directory), ElementsAre(2, 3, 4, 5, 6, 7));
    save_steps(next, directory, {8});
    EXPECT_THAT(committed_steps(directory), ElementsAre(7, 8));
  }
}

TEST(Retention, ReadsEachCheckpointOnce) {
  const test::TestDirectory directory;
  std::map<std::string, int> reads;
  CheckpointOptions options;
  options.threads = 1;
  options.retention.keep_latest = 2;
  const test::SystemCalls calls([&](const Call& call) {
    if (call.kind == Call::Kind::kRead && call.path.ends_with("model.safetensors")) ++reads[call.path];
    return true;
  });
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(committed_steps(directory), ElementsAre(5, 6));
  const int once = reads.at(directory / "step-5/model.safetensors");
  for (const auto& [what, count] : reads) EXPECT_EQ(count, once) << what;
}

TEST(Retention, DeletesNoCheckpointWithFilesThatNoSaveWrites) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {1});
  test::write_whole(directory / "step-1/notes.txt", test::Bytes(10));
  checkpointer.save(directory / "step-2", small_model(2), {}, state_at(2));
  EXPECT_THAT(checkpointer.wait().warnings, ElementsAre(HasSubstr("step-1: not deleted: it contains 'notes.txt'")));
  EXPECT_THAT(committed_steps(directory), ElementsAre(1, 2));
  verify_checkpoint(directory / "step-1");
}

TEST(Replacing, KeepsDirectoriesThatAreNoCheckpoints) {
  const test::TestDirectory directory;
  std::filesystem::create_directory(directory / "photos");
  test::write_whole(directory / "photos/cat.jpg", test::Bytes(10));
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "photos", small_model(1), {}, state_at(1));
  EXPECT_THAT(test::message_of([&] { checkpointer.wait(); }),
              HasSubstr("photos: not replaced: it is not a checkpoint"));
  EXPECT_THAT(test::entries_of(directory), ElementsAre("photos"));
  EXPECT_TRUE(std::filesystem::exists(directory / "photos/cat.jpg"));
}

// Files have the names that saves use, and nothing says that a save wrote them.
TEST(Replacing, KeepsFilesThatNoSaveHasCommitted) {
  for (const char* name : {"model.tensors", "model.safetensors", "training_state.json", "commit.json"}) {
    const test::TestDirectory directory;
    std::filesystem::create_directory(directory / "last");
    test::write_whole(directory / "last/" + name, test::Bytes(10));
    AsyncCheckpointer checkpointer;
    checkpointer.save(directory / "last", small_model(1), {}, state_at(1));
    EXPECT_THAT(test::message_of([&] { checkpointer.wait(); }),
                HasSubstr("last: not replaced: it is not a checkpoint"));
    EXPECT_THAT(test::entries_of(directory), ElementsAre("last"));
    EXPECT_TRUE(std::filesystem::remove(directory / "last/" + name));
    checkpointer.save(directory / "last", small_model(1), {}, state_at(1));
    EXPECT_THAT(checkpointer.wait().warnings, testing::IsEmpty());
    EXPECT_EQ(verify_checkpoint(directory / "last").step, 1U);
  }
}

// The only directory other than `except` and the file `latest`.
std::string only_other(const test::TestDirectory& directory, const std::string& except) {
  std::vector<std::string> names = checkpoints(directory);
  std::erase(names, except);
  return names.size() == 1 ? names.front() : "there are " + std::to_string(names.size());
}

TEST(Replacing, KeepsWhatRetentionKeepsUnderAnotherName) {
  for (const bool by_name : {false, true}) {
    const test::TestDirectory directory;
    CheckpointOptions options;
    options.retention.keep_latest = 1;
    if (by_name) options.retention.protect = {"best"};
    if (!by_name)
      options.retention.keep = [](const CheckpointInfo& info, const TrainingState&) { return info.step == 1; };
    AsyncCheckpointer checkpointer(options);
    checkpointer.save(directory / "best", small_model(1), {}, state_at(1));
    EXPECT_THAT(checkpointer.wait().warnings, testing::IsEmpty());
    checkpointer.save(directory / "best", small_model(2), {}, state_at(2));
    const auto warnings = checkpointer.wait().warnings;
    const std::string kept = only_other(directory, "best");
    EXPECT_THAT(kept, testing::StartsWith("best.replaced-"));
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("so the old one is now " + directory / kept)));
    EXPECT_EQ(verify_checkpoint(directory / "best").step, 2U);
    EXPECT_EQ(verify_checkpoint(directory / kept).step, 1U);
    EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 2U);
    EXPECT_THAT(clean_stale_checkpoints(directory.name()).removed, testing::IsEmpty());
    if (by_name) continue;
    checkpointer.save(directory / "best", small_model(3), {}, state_at(3));
    EXPECT_THAT(checkpointer.wait().warnings, testing::IsEmpty());
    EXPECT_EQ(only_other(directory, "best"), kept);
  }
}

// A rename over a directory that is not empty fails, unless others have emptied it.
TEST(Replacing, GivesACheckpointItsNameBackThatTheTrialHasRenamed) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "last", small_model(1), {}, state_at(1));
  checkpointer.wait();
  bool emptied = false;
  const test::SystemCalls calls([&](const Call& call) {
    if (call.function.starts_with("renameat") && call.path == directory / "last") {
      emptied = std::filesystem::remove(call.new_path + "/latest");
    }
    return true;
  });
  checkpointer.save(directory / "last", small_model(2), {}, state_at(2));
  EXPECT_THAT(test::message_of([&] { checkpointer.wait(); }), testing::EndsWith("and has its name again"));
  EXPECT_TRUE(emptied);
  EXPECT_THAT(test::entries_of(directory), ElementsAre("last", "latest"));
  EXPECT_EQ(verify_checkpoint(directory / "last").step, 1U);
}

// As retention of another process does, before each call.
TEST(Replacing, TakesACheckpointThatIsDeletedForAbsent) {
  unsigned at = 0;
  for (bool through = false; !through; ++at) {
    const test::TestDirectory directory(test::fastest_directory());
    CheckpointOptions options;
    options.threads = 1;
    AsyncCheckpointer checkpointer(options);
    checkpointer.save(directory / "a", small_model(1), {}, state_at(1));
    checkpointer.wait();
    const Directory old(directory / "a");
    unsigned calls = 0;
    const test::SystemCalls other([&](const Call&) {
      if (calls++ != at || !Directory(directory.name()).is_name_of("a", old.get())) return true;
      std::filesystem::rename(directory / "a", directory / "gone");
      std::filesystem::remove_all(directory / "gone");
      return true;
    });
    checkpointer.save(directory / "a", small_model(2), {}, state_at(2));
    EXPECT_THAT(test::message_of([&] { EXPECT_THAT(checkpointer.wait().warnings, testing::IsEmpty()); }), "")
        << "call " << at;
    through = calls <= at;
    EXPECT_EQ(verify_checkpoint(directory / "a").step, 2U) << "call " << at;
    EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest")) << "call " << at;
  }
  EXPECT_GT(at, 40U);
}

TEST(Replacing, TakesACheckpointThatAppearsForTheOldOne) {
  unsigned at = 0;
  for (bool through = false; !through; ++at) {
    const test::TestDirectory directory(test::fastest_directory());
    CheckpointOptions options;
    options.threads = 1;
    AsyncCheckpointer checkpointer(options);
    checkpointer.save(directory / "spare", small_model(1), {}, state_at(1));
    checkpointer.wait();
    unsigned calls = 0;
    const test::SystemCalls other([&](const Call&) {
      if (calls++ != at || std::filesystem::exists(directory / "a")) return true;
      std::filesystem::copy(directory / "spare", directory / "a");
      return true;
    });
    checkpointer.save(directory / "a", small_model(2), {}, state_at(2));
    EXPECT_THAT(test::message_of([&] { EXPECT_THAT(checkpointer.wait().warnings, testing::IsEmpty()); }), "")
        << "call " << at;
    through = calls <= at;
    EXPECT_EQ(verify_checkpoint(directory / "a").step, 2U) << "call " << at;
    EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest", "spare")) << "call " << at;
  }
  EXPECT_GT(at, 40U);
}

TEST(Replacing, KeepsAnOldCheckpointWithOtherFilesUnderItsTemporaryName) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1});
  std::filesystem::rename(directory / "step-1", directory / "last");
  test::write_whole(directory / "last/notes.txt", test::Bytes(10));
  checkpointer.save(directory / "last", small_model(2), {}, state_at(2));
  EXPECT_THAT(checkpointer.wait().warnings, ElementsAre(HasSubstr("not deleted: it contains 'notes.txt'")));
  EXPECT_EQ(verify_checkpoint(directory / "last").step, 2U);
  const auto entries = test::entries_of(directory);
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_TRUE(checkpoint::is_marked_name(entries[1])) << entries[1];
  EXPECT_TRUE(std::filesystem::exists(directory / entries[1] + "/notes.txt"));
  EXPECT_THAT(clean_stale_checkpoints(directory.name()).removed, ElementsAre());
  verify_checkpoint(directory / entries[1]);
}

TEST(CleanStale, RemovesWhatDeadSavesLeftAndNothingElse) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1});
  const std::string dead = marked(directory, "step-2", "dead"), alive = marked(directory, "step-3", "alive");
  std::filesystem::create_directories(dead + "/rank_0");
  test::write_whole(dead + "/rank_0/model.safetensors", test::Bytes(10));
  test::write_whole(directory / "notes.tmp-1", test::Bytes(10));
  std::filesystem::create_directory(directory / "mine");
  std::filesystem::create_directory(alive);
  {
    const auto lock = Directory::of(alive).lock_directory(name_in_directory(alive), Lock::kShared);
    const auto also = Directory::of(alive).lock_directory(name_in_directory(alive), Lock::kShared);
    ASSERT_TRUE(lock && also);
    EXPECT_THAT(clean_stale_checkpoints(directory.name()).removed, ElementsAre(dead));
  }
  EXPECT_THAT(clean_stale_checkpoints(directory.name()).removed, ElementsAre(alive));
  EXPECT_THAT(test::entries_of(directory), ElementsAre("latest", "mine", "notes.tmp-1", "step-1"));
  EXPECT_EQ(verify_checkpoint(directory / "step-1").step, 1U);
}

TEST(CleanStale, LeavesAloneWhatNoSaveMakesAndSaysSo) {
  const test::TestDirectory directory;
  const std::vector<std::string> foreign = {
      "rank_0/mine",   "thesis.txt",         "rank_x",  "model.bin", "model.safetensors.orig",
      "manifest.json", "rank_0/commit.json", "rank_00", "rank_65536"};
  for (std::size_t i = 0; i < foreign.size(); ++i) {
    const std::string stale = marked(directory, "a" + std::to_string(i), "1");
    std::filesystem::create_directories(stale + "/rank_0");
    test::write_whole(stale + "/rank_0/model.safetensors", test::Bytes(10));
    test::write_whole(stale + "/optimizer.tensors", test::Bytes(10));
    test::write_whole(stale + "/" + foreign[i], test::Bytes(10));
  }
  const std::string link = marked(directory, "link", "1");
  std::filesystem::create_directory(link);
  std::filesystem::create_symlink(directory / "elsewhere", link + "/model.safetensors");
  const auto before = test::entries_of(directory);
  const CleanedCheckpoints cleaned = clean_stale_checkpoints(directory.name());
  EXPECT_THAT(cleaned.removed, ElementsAre());
  ASSERT_EQ(cleaned.kept.size(), foreign.size() + 1);
  for (std::size_t i = 0; i < foreign.size(); ++i) {
    EXPECT_THAT(cleaned.kept[i], HasSubstr("contains '" + foreign[i] + "'"));
    EXPECT_TRUE(std::filesystem::exists(marked(directory, "a" + std::to_string(i), "1") + "/optimizer.tensors"));
  }
  EXPECT_EQ(test::entries_of(directory), before);
}

// People and other programs use such names too.
TEST(CleanStale, LeavesAloneWhatHasNoMark) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1});
  for (const char* name : {"data.tmp-2024", "step-2.tmp-0123456789abcdef", "empty.tmp-1", ".tmp-1"}) {
    std::filesystem::create_directory(directory / name);
    if (std::string_view(name).starts_with("empty")) continue;
    test::write_whole(directory / name + "/model.safetensors", test::Bytes(10));
  }
  std::filesystem::copy(directory / "step-1", directory / "step-1.tmp-backup");
  // A copy of what a dead save has left has another name, to which the mark does not belong.
  const std::string dead = marked(directory, "step-3", "dead");
  std::filesystem::create_directory(dead);
  std::filesystem::copy(dead, dead.substr(0, dead.rfind("step-3")) + "kept-" + dead.substr(dead.rfind("step-3")));
  const std::size_t count = test::entries_of(directory).size();
  const CleanedCheckpoints cleaned = clean_stale_checkpoints(directory.name());
  EXPECT_THAT(cleaned.removed, ElementsAre(dead));
  EXPECT_EQ(test::entries_of(directory).size(), count - 1);
  EXPECT_THAT(cleaned.kept, testing::Contains(HasSubstr("empty.tmp-1: not deleted: its name lacks the mark")));
  for (const CheckpointInfo& info : list_checkpoints(directory.name())) {
    if (info.status == CheckpointInfo::Status::kCommitted) continue;
    EXPECT_EQ(info.problem, "temporary name without the mark of a save") << info.directory;
  }
}

// At every call, a directory gives its name to a link to another one.
TEST(CleanStale, EmptiesNoDirectoryThatALinkLeadsTo) {
  for (const bool swaps_rank : {false, true}) {
    unsigned at = 0, swaps = 0;
    for (bool through = false; !through; ++at) {
      const test::TestDirectory directory;
      const std::string stale = marked(directory, "a", "1"), rank = stale + "/rank_0";
      const std::string victim = directory / "victim";
      std::filesystem::create_directories(rank);
      std::filesystem::create_directories(victim + "/rank_0");
      for (const std::string& name : {stale, rank, victim, victim + "/rank_0"}) {
        test::write_whole(name + "/model.safetensors", test::Bytes(10));
      }
      unsigned calls = 0;
      const test::SystemCalls swapper([&](const Call&) {
        if (calls++ != at) return true;
        std::error_code gone;
        std::filesystem::rename(swaps_rank ? rank : stale, directory / "aside", gone);
        if (gone) return true;
        std::filesystem::create_directory_symlink(victim, swaps_rank ? rank : stale);
        ++swaps;
        return true;
      });
      const std::string message = test::message_of([&] { clean_stale_checkpoints(directory.name()); });
      through = calls <= at;
      ASSERT_TRUE(std::filesystem::exists(victim + "/model.safetensors")) << "call " << at << ": " << message;
      ASSERT_TRUE(std::filesystem::exists(victim + "/rank_0/model.safetensors")) << "call " << at << ": " << message;
    }
    EXPECT_GT(at, 8U);
    EXPECT_GT(swaps, 5U);
  }
}

// At every call, also while the temporary name is that of the old checkpoint. Only a directory that was made, and not
// locked yet, looks like a dead save's; then the save makes another one.
TEST(CleanStale, LeavesASaveThatGoesOnAlone) {
  const test::TestDirectory directory;
  std::filesystem::create_directory(directory / "run");
  unsigned opens = 0, locks = 0, calls = 0;
  std::size_t cleaned = 0;
  const test::SystemCalls cleaner([&](const Call& call) {
    ++calls;
    const bool is_new = checkpoint::is_marked_name(name_in_directory(call.path));
    if (is_new && call.function == "openat" && ++opens > 1) return true;
    if (is_new && call.kind == Call::Kind::kLock && ++locks > 1) return true;
    cleaned += clean_stale_checkpoints(directory / "run").removed.size();
    return true;
  });
  CheckpointOptions options;
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
  std::optional<Directory> cleaner;
  const test::SystemCalls calls([&](const Call& call) {
    if (call.kind != Call::Kind::kLock || call.path.ends_with(".tzmark-writer")) return true;
    if (++locks == 1) cleaner = Directory::of(call.path).lock_directory(name_in_directory(call.path), Lock::kAlone);
    if (locks == 3) cleaner.reset();
    return true;
  });
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "a", small_model(1), {}, state_at(1));
  checkpointer.wait();
  EXPECT_GE(locks, 3U);
  EXPECT_EQ(verify_checkpoint(directory / "a").step, 1U);
}

// Holds a lock of another process, for which the right to read is enough.
class StrangersLock {
 public:
  StrangersLock(const std::string& directory, Lock lock) : directory_(directory) {
    if (!try_lock(directory_.get(), lock)) throw std::runtime_error("cannot lock " + directory);
  }

 private:
  const Directory directory_;
};

mode_t mode_of(const std::string& name) {
  struct stat status {};
  return ::stat(name.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

TEST(Locks, OfStrangersDoNotStopRetention) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.retention.keep_latest = 1;
  AsyncCheckpointer checkpointer(options);
  save_steps(checkpointer, directory, {1});
  const StrangersLock lock(directory / "step-1", Lock::kAlone);
  save_steps(checkpointer, directory, {2});
  EXPECT_THAT(test::entries_of(directory), ElementsAre("latest", "step-2"));
}

TEST(Locks, OfStrangersDoNotStopAReplacement) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "a", small_model(1), {}, state_at(1));
  checkpointer.wait();
  const StrangersLock lock(directory / "a", Lock::kAlone);
  checkpointer.save(directory / "a", small_model(2), {}, state_at(2));
  checkpointer.wait();
  EXPECT_EQ(verify_checkpoint(directory / "a").step, 2U);
  EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest"));
}

TEST(Locks, OfStrangersAreReportedByCleaning) {
  const test::TestDirectory directory;
  const std::string stale = marked(directory, "step-1", "dead");
  std::filesystem::create_directory(stale);
  {
    const StrangersLock lock(stale, Lock::kShared);
    const CleanedCheckpoints cleaned = clean_stale_checkpoints(directory.name());
    EXPECT_THAT(cleaned.removed, testing::IsEmpty());
    EXPECT_THAT(cleaned.kept, ElementsAre(stale + ": not deleted: another process has locked it"));
    // That of a save in progress.
    std::filesystem::permissions(stale, std::filesystem::perms(0700));
    EXPECT_THAT(clean_stale_checkpoints(directory.name()).kept, testing::IsEmpty());
  }
  EXPECT_THAT(clean_stale_checkpoints(directory.name()).removed, ElementsAre(stale));
  // Without a rename.
  const std::string unfinished = directory / "step-1";
  std::filesystem::create_directory(unfinished);
  const std::string text = checkpoint::temporary_name("step-1", "dead") + "\n";
  test::write_whole(unfinished + "/tzmark-unfinished", std::as_bytes(std::span(text)));
  {
    const StrangersLock lock(unfinished, Lock::kShared);
    EXPECT_THAT(clean_stale_checkpoints(directory.name()).kept,
                ElementsAre(unfinished + ": not deleted: another process has locked it"));
  }
  EXPECT_THAT(clean_stale_checkpoints(directory.name()).removed, ElementsAre(unfinished));
}

TEST(Locks, OthersCanOpenACheckpointOnlyWhenItIsComplete) {
  const mode_t umask_before = ::umask(027);
  for (const auto method : {CommitMethod::kRename, CommitMethod::kMarker}) {
    const test::TestDirectory directory;
    // As a person has made it.
    if (method == CommitMethod::kMarker) std::filesystem::create_directory(directory / "step-2");
    std::mutex mutex;
    std::set<mode_t> modes;
    {
      const test::SystemCalls calls([&](const Call& call) {
        // In a directory with its final name, it is the last one.
        const bool is_commit = method == CommitMethod::kMarker && call.path.ends_with("/commit.json");
        if (call.kind != Call::Kind::kWrite || is_commit) return true;
        const std::lock_guard lock(mutex);
        modes.insert(mode_of(std::filesystem::path(call.path).parent_path()));
        return true;
      });
      CheckpointOptions options;
      options.commit = method;
      AsyncCheckpointer checkpointer(options);
      save_steps(checkpointer, directory, {1, 2});
    }
    EXPECT_THAT(modes, ElementsAre(0700U));
    for (const char* name : {"step-1", "step-2"}) {
      EXPECT_EQ(mode_of(directory / name), 0750U);
      EXPECT_FALSE(std::filesystem::exists(directory / name + "/rank_0"));
    }
  }
  ::umask(umask_before);
}

// What is in it proves that a checkpoint cannot be renamed over it.
TEST(Locks, OthersCannotOpenWhatATrialMakes) {
  const test::TestDirectory directory;
  unsigned trials = 0;
  const test::SystemCalls calls([&](const Call& call) {
    if (!call.function.starts_with("renameat") || !checkpoint::is_marked_name(name_in_directory(call.path)) ||
        std::filesystem::exists(call.path + "/commit.json")) {
      return true;
    }
    ++trials;
    EXPECT_EQ(mode_of(call.path), 0700U);
    return true;
  });
  AsyncCheckpointer checkpointer;
  for (const std::uint64_t step : {1, 2}) {
    checkpointer.save(directory / "a", small_model(step), {}, state_at(step));
    checkpointer.wait();
  }
  EXPECT_EQ(trials, 3U);
}

TEST(Locks, OthersCannotLockASaveInProgress) {
  if (!test::can_be_other_user()) GTEST_SKIP() << test::kNoOtherUser;
  const test::TestDirectory directory;
  ASSERT_EQ(::chmod(directory.name().c_str(), 0755), 0);
  unsigned refused = 0, opened = 0;
  const test::SystemCalls calls([&](const Call& call) {
    if (call.kind != Call::Kind::kSync || call.path.find("/step-1.tmp-") == std::string::npos) return true;
    const std::string temporary = std::filesystem::path(call.path).parent_path();
    if (temporary == directory.name()) return true;
    const int result =
        test::as_other_user([&] { return ::open(temporary.c_str(), O_RDONLY | O_DIRECTORY) < 0 ? 0 : 1; });
    ++(result == 0 ? refused : opened);
    return true;
  });
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1});
  EXPECT_GT(refused, 2U);
  EXPECT_EQ(opened, 0U);
}

TEST(Catalog, GoesOnWithoutWhatCannotBeRead) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2, 3});
  bool all = false;
  const test::SystemCalls calls([&](const Call& call) -> test::Reply {
    const bool is_refused = all || call.what == "open " + (directory / "step-2") ||
                            call.what.starts_with("open " + (directory / "step-3") + "/");
    return is_refused ? test::Reply::failure(EACCES) : true;
  });
  const auto found = list_checkpoints(directory.name());
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].status, CheckpointInfo::Status::kUnreadable);
  EXPECT_EQ(found[1].status, CheckpointInfo::Status::kUnreadable);
  EXPECT_THAT(found[1].problem, testing::EndsWith("Permission denied"));
  EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 1U);
  // What also meets the directory above is no fault of one checkpoint.
  all = true;
  EXPECT_EQ(caught([&] { find_newest_checkpoint(directory.name()); }), failure(ErrorCode::kOpenFailed));
}

TEST(Catalog, AReadThatFailsDoesNotLeadToAnOlderCheckpoint) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  // Each call about the newer checkpoint, by itself.
  std::size_t calls_met = 0;
  for (const int error_number : {EIO, ESTALE, ENOMEM}) {
    bool is_met = true;
    for (std::size_t failing = 0; is_met; ++failing) {
      std::size_t seen = 0;
      is_met = false;
      const test::SystemCalls calls([&](const Call& call) -> test::Reply {
        const bool is_about = call.path.starts_with(directory / "step-2") || call.what.ends_with(directory / "step-2");
        if (!is_about || seen++ != failing) return true;
        is_met = true;
        return test::Reply::failure(error_number);
      });
      SCOPED_TRACE(fmt::format("call {}, error {}", failing, error_number));
      try {
        EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 2U) << "what it can do without";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kReadFailed) << error.what();
        ++calls_met;
      }
    }
  }
  EXPECT_GT(calls_met, 6U);
}

TEST(Catalog, AnUnreadCheckpointIsListedAndPassedOverForAnIntactOne) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  const std::string record = directory / "step-2/commit.json";
  const test::SystemCalls calls([&](const Call& call) -> test::Reply {
    if (call.kind == Call::Kind::kRead && call.path == record) return test::Reply::failure(EIO);
    return true;
  });
  EXPECT_EQ(list_checkpoints(directory.name()).size(), 2U) << "it does not hide the other";
  EXPECT_EQ(find_intact_checkpoint(directory.name()).found->step, 1U);
}

TEST(Catalog, FollowsNoLinksInACheckpointAndWaitsForNoFifo) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  std::filesystem::create_directory_symlink(directory.name(), directory / "link");
  EXPECT_EQ(load_checkpoint(directory / "link/step-1").state.step, 1U);
  EXPECT_EQ(find_newest_checkpoint(directory / "link")->step, 2U);
  const std::string model = directory / "step-2/model.safetensors";
  std::filesystem::remove(model);
  std::filesystem::create_symlink(directory / "step-1/model.safetensors", model);
  EXPECT_EQ(caught([&] { load_checkpoint(directory / "step-2"); }), failure(ErrorCode::kCheckpointDamaged));
  // Swapped in when it has been looked at.
  for (const bool fifo : {false, true}) {
    std::filesystem::remove(model);
    std::filesystem::copy_file(directory / "step-1/model.safetensors", model);
    const test::SystemCalls calls([&](const Call& call) {
      if (call.what != "open " + model) return true;
      std::filesystem::remove(model);
      if (fifo) {
        EXPECT_EQ(::mkfifo(model.c_str(), 0600), 0);
      } else {
        std::filesystem::create_symlink(directory / "step-1/model.safetensors", model);
      }
      return true;
    });
    EXPECT_EQ(caught([&] { load_checkpoint(directory / "step-2"); }), failure(ErrorCode::kOpenFailed)) << fifo;
  }
  std::filesystem::remove(directory / "step-2/commit.json");
  ASSERT_EQ(::mkfifo((directory / "step-2/commit.json").c_str(), 0600), 0);
  EXPECT_EQ(caught([&] { load_checkpoint(directory / "step-2"); }), failure(ErrorCode::kCheckpointUncommitted));
  std::filesystem::remove(directory / "latest");
  ASSERT_EQ(::mkfifo((directory / "latest").c_str(), 0600), 0);
  EXPECT_EQ(caught([&] { read_latest_checkpoint(directory.name()); }), failure(ErrorCode::kOpenFailed));
}

TEST(Catalog, FollowsNoLinkToARankElsewhere) {
  const test::TestDirectory directory;
  test::ThreadGroup group("id-1", 1);
  AsyncCheckpointer checkpointer;
  checkpointer.save_distributed(directory / "a", 0, 1, small_model(1), {}, state_at(1), {}, group.group());
  checkpointer.wait();
  std::filesystem::rename(directory / "a/rank_0", directory / "elsewhere");
  std::filesystem::create_directory_symlink(directory / "elsewhere", directory / "a/rank_0");
  EXPECT_EQ(caught([&] { load_distributed_checkpoint(directory / "a", 0, 1); }),
            failure(ErrorCode::kCheckpointDamaged));
}

// A search through the list for each file, and a parser that is quadratic in its length, would take minutes.
TEST(Catalog, VerifiesManyFilesInTimeThatGrowsWithTheirNumber) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1});
  const std::string commit = directory / "step-1/commit.json";
  const test::Bytes bytes = test::read_whole(commit);
  auto record = checkpoint::parse_commit({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  for (int i = 0; i < 60'000; ++i) {
    const std::string name = "file-" + std::to_string(i);
    record.files.push_back({name, {0, 0}});
    test::write_whole(directory / "step-1/" + name, test::Bytes());
  }
  const std::string text = checkpoint::serialize_commit(record);
  test::write_whole(commit, std::as_bytes(std::span(text)));
  EXPECT_EQ(verify_checkpoint(directory / "step-1").file_count, 60'003U);
}

TEST(Catalog, PassesOverWhatIsGoneByNow) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  save_steps(checkpointer, directory, {1, 2});
  const test::SystemCalls calls([&](const Call& call) {
    if (call.what == "open " + (directory / "step-1")) {
      std::filesystem::rename(directory / "step-1", directory / "step-1.tmp-old");
    }
    return true;
  });
  const auto all = list_checkpoints(directory.name());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].step, 2U);
}

TEST(Catalog, RefusesALatestThatNamesNoCheckpoint) {
  const test::TestDirectory directory;
  for (const char* name : {".", "..", "a/b", "\n", "a/", "latest", "a.tmp-1"}) {
    test::write_whole(directory / "latest", std::as_bytes(std::span(std::string_view(name))));
    EXPECT_EQ(caught([&] { read_latest_checkpoint(directory.name()); }), failure(ErrorCode::kCheckpointUncommitted))
        << name;
  }
}

}  // namespace
}  // namespace tzmark
