// Tests of what is on disk when a call fails, or the power goes, at any moment of a save.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iostream>
#include <string>
#include <vector>

#include "testing/disk/power_loss.h"
#include "testing/faults/system_calls.h"
#include "testing/files/checkpoint_models.h"

namespace tzmark {
namespace {

using test::Call;
using test::small_model;
using test::small_optimizer;
using test::state_at;
using testing::ElementsAre;
using testing::IsEmpty;

// Sanitizers make each state some five times slower, and look for other things: there, only some calls and states.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kStride = 5;
#else
constexpr unsigned kStride = 1;
#endif

// A save of step 2 where steps 1 and 0 are there already, the latter being the one that was saved last, and from which
// it continues; or one of step 21 by a program that goes back to step 20 of 10, 20 and 30.
struct Scenario {
  const char* new_name;
  CheckpointOptions options;
  bool goes_back = false;

  std::uint64_t step_before() const { return goes_back ? 30 : 0; }
  std::uint64_t step() const { return goes_back ? 21 : 2; }
};

std::vector<Scenario> scenarios() {
  std::vector<Scenario> all;
  for (const auto format : {CheckpointOptions::Format::kSafetensors, CheckpointOptions::Format::kTensors}) {
    CheckpointOptions options;
    options.format = format;
    options.threads = 1;
    options.piece_bytes = 4096;
    all.push_back({"/new", options});
    all.push_back({"/old", options});
    options.retention.keep_latest = 1;
    all.push_back({"/new", options});
    options.retention.keep_latest = 2;
    all.push_back({"/new", options, true});
    if (format == CheckpointOptions::Format::kTensors) continue;
    options.retention.keep_latest = 1;
    options.commit = CommitMethod::kMarker;
    all.push_back({"/new", options});
    options.retention.keep_latest = 0;
    all.push_back({"/new", options});
    options.retention.keep_latest = 2;
    all.push_back({"/new", options, true});
  }
  return all;
}

// Returns the warnings of faults, without the word about what the run gave up. continues: the save id of the checkpoint
// before.
std::vector<std::string> save(const Scenario& scenario, const std::string& name, std::uint64_t step,
                              const std::string& continues) {
  AsyncCheckpointer checkpointer(scenario.options);
  checkpointer.continue_from(continues);
  checkpointer.save(name, small_model(step), small_optimizer(step), state_at(step));
  std::vector<std::string> warnings = checkpointer.wait().warnings;
  std::erase_if(warnings, [](const std::string& text) { return text.ends_with("this run does not continue from it"); });
  return warnings;
}

// Returns the save id of the checkpoint from which the new one continues.
std::string save_old(const Scenario& scenario, const std::string& directory) {
  Scenario keeps_all = scenario;
  keeps_all.options.retention = {};
  const auto save_id = [&](const std::string& name) { return verify_checkpoint(directory + name).save_id; };
  if (scenario.goes_back) {
    save(keeps_all, directory + "/10", 10, "");
    save(keeps_all, directory + "/20", 20, save_id("/10"));
    save(keeps_all, directory + "/30", 30, save_id("/20"));
    return save_id("/20");
  }
  save(keeps_all, directory + "/old", 1, "");
  save(keeps_all, directory + "/rewound", 0, save_id("/old"));
  return save_id("/rewound");
}

// What is wrong with the line of a run that has gone back to step 20. A save that could not read that checkpoint, and
// said so, has no line.
std::string what_is_wrong_with_the_line(const std::vector<CheckpointInfo>& all, const CheckpointInfo& newest,
                                        bool newest_only) {
  const auto find = [&](std::uint64_t step) { return std::ranges::find(all, step, &CheckpointInfo::step); };
  if (find(20) == all.end() || find(30) == all.end()) return "what has to stay is deleted";
  const bool has_gone_back = newest.step == 21;
  if (has_gone_back && newest.origin.parent != find(20)->save_id) return "the parent is another one";
  const bool has_line = newest_only || !newest.origin.line.empty();
  if (has_line && !find(20)->is_on_line) return "20 is off the line";
  if (find(30)->is_on_line == has_gone_back) return "30 is on the wrong line";
  return {};
}

// What is wrong with what a loader finds; empty if nothing is. newest_only: the checkpoint before is not good enough.
std::string what_is_wrong(const Scenario& scenario, const std::string& directory, bool newest_only) {
  CheckpointReadOptions options;
  options.threads = 1;
  const auto is_good = [&](std::uint64_t step) {
    return step == scenario.step() || (!newest_only && step == scenario.step_before());
  };
  try {
    const auto all = list_checkpoints(directory);
    for (const CheckpointInfo& info : all) {
      if (info.status == CheckpointInfo::Status::kUncommitted) return info.directory + " is half there";
      if (info.status == CheckpointInfo::Status::kCommitted) verify_checkpoint(info.directory, options);
    }
    const auto newest = find_newest_checkpoint(directory);
    if (!newest) return "no checkpoint is left";
    if (!is_good(newest->step)) return fmt::format("the newest checkpoint is of step {}", newest->step);
    if (find_intact_checkpoint(directory, options).found->directory != newest->directory) return "another is intact";
    const LoadedCheckpoint loaded = load_checkpoint(newest->directory, options);
    if (test::content_of(loaded.model) != small_model(loaded.state.step).content()) return "the model is another one";
    const auto latest = read_latest_checkpoint(directory);
    if (!latest) return "latest is gone";
    const std::uint64_t latest_step = load_checkpoint(*latest, options).state.step;
    if (!is_good(latest_step)) return fmt::format("latest names step {}", latest_step);
    if (scenario.goes_back) return what_is_wrong_with_the_line(all, *newest, newest_only);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// The same, also after what is stale has been removed.
std::string what_stays_wrong(const Scenario& scenario, const std::string& directory, bool newest_only) {
  const std::string wrong = what_is_wrong(scenario, directory, newest_only);
  if (!wrong.empty()) return wrong;
  const bool is_changed = !clean_stale_checkpoints(directory).removed.empty();
  for (const CheckpointInfo& info : list_checkpoints(directory)) {
    if (info.status == CheckpointInfo::Status::kTemporary) return info.directory + " is left";
  }
  return !is_changed ? std::string() : what_is_wrong(scenario, directory, newest_only);
}

// continues: set before the change.
test::PowerLossScenario power_loss_in(const Scenario& scenario, std::string& continues) {
  test::PowerLossScenario power_loss;
  power_loss.prepare = [&](const std::string& directory) { continues = save_old(scenario, directory); };
  power_loss.change = [&](const std::string& directory) {
    save(scenario, directory + scenario.new_name, scenario.step(), continues);
  };
  power_loss.random_states = 200 / kStride;
  power_loss.makes_names_durable = false;
  power_loss.judge = [&](const std::string& directory, const test::Outcome& outcome) {
    return what_stays_wrong(scenario, directory, outcome.is_finished);
  };
  return power_loss;
}

TEST(PowerLoss, LeavesTheNewCheckpointOrTheOneBeforeAtEveryCallAndNeedsEverySync) {
  std::size_t states = 0;
  for (const Scenario& scenario : scenarios()) {
    std::string continues;
    const test::PowerLossReport report = test::lose_power(power_loss_in(scenario, continues));
    EXPECT_THAT(report.bad, IsEmpty());
    // Before retention deletes anything that `latest` may still name, it syncs the directory once more.
    const bool deletes = scenario.options.retention.keep_latest != 0;
    EXPECT_EQ(report.unnoticed_syncs, std::vector<std::string>(deletes ? 1 : 0, "sync directory directory"));
    EXPECT_GE(report.syncs, 8U);
    states += report.states;
  }
  std::cout << states << " states\n";
  EXPECT_GT(states, 700U / kStride);
}

TEST(WithoutSyncOfDirectories, SavesAndSaysThatNamesAreNotDurable) {
  for (const int error_number : {EINVAL, EOPNOTSUPP}) {
    for (const Scenario& scenario : scenarios()) {
      const test::TestDirectory directory(test::fastest_directory());
      const std::string continues = save_old(scenario, directory.name());
      const test::SystemCalls faults([&](const Call& call) -> test::Reply {
        return call.kind == Call::Kind::kSyncDirectory ? test::Reply::failure(error_number) : true;
      });
      AsyncCheckpointer checkpointer(scenario.options);
      checkpointer.continue_from(continues);
      const std::uint64_t step = scenario.step();
      checkpointer.save(directory / (scenario.new_name + 1), small_model(step), small_optimizer(step), state_at(step));
      const WriteReport report = checkpointer.wait();
      EXPECT_FALSE(report.names_durable);
      // A run that goes back also says what it does not delete.
      std::vector<testing::Matcher<std::string>> told = {testing::HasSubstr("cannot be made durable here")};
      if (scenario.goes_back) told.push_back(testing::HasSubstr("this run does not continue from it"));
      EXPECT_THAT(report.warnings, testing::ElementsAreArray(told));
      EXPECT_EQ(what_stays_wrong(scenario, directory.name(), true), "");

      Scenario strict = scenario;
      strict.options.durability = Durability::kRequired;
      const auto before = entries_of(directory);
      EXPECT_THAT(test::message_of([&] { save(strict, directory / "strict", 3, continues); }),
                  testing::HasSubstr("durability is required"));
      EXPECT_EQ(entries_of(directory), before);
    }
  }
}

bool renames_directory(const Call& call, std::string_view ending = "") {
  return call.function.starts_with("renameat") && std::filesystem::is_directory(call.path) &&
         call.path.ends_with(ending);
}

// As gcsfuse, mountpoint-s3 and others do.
TEST(WithoutRenameOfDirectories, CommitsByAMarker) {
  for (const int error_number : {EMFILE, ENOSYS, EXDEV}) {
    const test::TestDirectory directory(test::fastest_directory());
    const test::SystemCalls faults([&](const Call& call) -> test::Reply {
      return renames_directory(call) ? test::Reply::failure(error_number) : true;
    });
    CheckpointOptions options;
    options.retention.keep_latest = 1;
    AsyncCheckpointer checkpointer(options);
    for (const std::uint64_t step : {1, 2, 3}) {
      const std::string name = directory / ("step-" + std::to_string(step));
      checkpointer.save(name, small_model(step), small_optimizer(step), state_at(step));
      const WriteReport report = checkpointer.wait();
      EXPECT_EQ(report.commit, CommitMethod::kMarker);
      EXPECT_THAT(report.warnings, IsEmpty());
      EXPECT_EQ(verify_checkpoint(name).commit, CommitMethod::kMarker);
    }
    EXPECT_THAT(entries_of(directory), ElementsAre("latest", "step-3"));
    EXPECT_EQ(read_latest_checkpoint(directory.name()), directory / "step-3");

    checkpointer.save(directory / "step-3", small_model(4), {}, state_at(4));
    EXPECT_THAT(test::message_of([&] { checkpointer.wait(); }), testing::HasSubstr("existing checkpoint kept"));
    EXPECT_EQ(verify_checkpoint(directory / "step-3").step, 3U);

    options.commit = CommitMethod::kRename;
    AsyncCheckpointer renaming(options);
    renaming.save(directory / "step-5", small_model(5), {}, state_at(5));
    EXPECT_THAT(test::message_of([&] { renaming.wait(); }), testing::HasSubstr("cannot rename"));
    EXPECT_THAT(entries_of(directory), ElementsAre("latest", "step-3"));
  }
}

TEST(WithoutAnyRename, WritesLatestInItsPlace) {
  const test::TestDirectory directory(test::fastest_directory());
  const test::SystemCalls faults([&](const Call& call) -> test::Reply {
    return call.function.starts_with("renameat") ? test::Reply::failure(ENOSYS) : true;
  });
  AsyncCheckpointer checkpointer;
  for (const std::uint64_t step : {1, 2}) {
    checkpointer.save(directory / ("step-" + std::to_string(step)), small_model(step), {}, state_at(step));
    EXPECT_THAT(checkpointer.wait().warnings, IsEmpty());
  }
  EXPECT_EQ(read_latest_checkpoint(directory.name()), directory / "step-2");
  EXPECT_THAT(entries_of(directory), ElementsAre("latest", "step-1", "step-2"));
  test::write_whole(directory / "latest", {});
  EXPECT_EQ(read_latest_checkpoint(directory.name()), std::nullopt);
}

// Checkpoints that are older than the container lie in a lower layer of an overlay.
TEST(InALowerLayer, CheckpointsAreDeletedInPlaceAndNotReplaced) {
  const test::TestDirectory directory(test::fastest_directory());
  const Scenario scenario = scenarios()[0];
  const std::string continues = save_old(scenario, directory.name());
  const test::SystemCalls faults([&](const Call& call) -> test::Reply {
    return renames_directory(call, "/old") || renames_directory(call, "/rewound") ? test::Reply::failure(EXDEV) : true;
  });
  const auto before = entries_of(directory);
  EXPECT_THAT(test::message_of([&] { save(scenario, directory / "old", 2, continues); }),
              testing::AllOf(testing::HasSubstr("existing checkpoint kept"), testing::HasSubstr("delete it first")));
  EXPECT_EQ(entries_of(directory), before);
  EXPECT_EQ(verify_checkpoint(directory / "old").step, 1U);

  CheckpointOptions options = scenario.options;
  options.retention.keep_latest = 1;
  AsyncCheckpointer checkpointer(options);
  checkpointer.continue_from(continues);
  checkpointer.save(directory / "new", small_model(2), {}, state_at(2));
  const WriteReport report = checkpointer.wait();
  EXPECT_EQ(report.commit, CommitMethod::kRename);
  EXPECT_THAT(report.warnings, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(directory / "old"));
}

// NFS, for example, renames directories and cannot exchange their names.
test::Reply refuse_exchange(const Call& call) {
  return call.what.starts_with("exchange ") ? test::Reply::failure(EINVAL) : true;
}

TEST(WithoutExchange, ReplacesACheckpointByTwoRenames) {
  const test::TestDirectory directory(test::fastest_directory());
  const Scenario scenario = scenarios()[0];
  const std::string continues = save_old(scenario, directory.name());
  const test::SystemCalls faults(refuse_exchange);
  EXPECT_THAT(save(scenario, directory / "old", 2, continues), IsEmpty());
  EXPECT_EQ(verify_checkpoint(directory / "old").step, 2U);
  EXPECT_THAT(entries_of(directory), ElementsAre("latest", "old", "rewound"));
}

// The old one is set aside by a rename if names cannot be exchanged, and if it is protected.
TEST(PowerLoss, LeavesTheNewCheckpointOrTheOneBeforeAlsoWhereNamesAreNotExchanged) {
  for (const bool is_protected : {false, true}) {
    Scenario scenario = scenarios()[1];
    ASSERT_STREQ(scenario.new_name, "/old");
    scenario.options.retention.keep_latest = is_protected ? 3 : 0;
    if (is_protected) scenario.options.retention.protect = {"old"};
    std::string continues;
    test::PowerLossScenario power_loss = power_loss_in(scenario, continues);
    power_loss.leaves_out_syncs = false;
    if (!is_protected) power_loss.hook = refuse_exchange;
    power_loss.judge = [&](const std::string& directory, const test::Outcome& outcome) {
      const auto all = list_checkpoints(directory);
      const bool has_old = std::ranges::find(all, 1, &CheckpointInfo::step) != all.end();
      if (!has_old && (is_protected || !outcome.is_finished) && find_newest_checkpoint(directory)->step != 2) {
        return std::string("the old checkpoint is gone, and the new one is not there");
      }
      if (!has_old && is_protected) return std::string("a protected checkpoint is gone");
      return what_stays_wrong(scenario, directory, outcome.is_finished);
    };
    const test::PowerLossReport report = test::lose_power(power_loss);
    EXPECT_THAT(report.bad, IsEmpty());
    EXPECT_GT(report.states, 40U);
  }
}

TEST(Cleaning, FailsNoSave) {
  for (const bool replaces : {false, true}) {
    const test::TestDirectory directory(test::fastest_directory());
    CheckpointOptions options = scenarios()[0].options;
    options.retention.keep_latest = 1;
    AsyncCheckpointer checkpointer(options);
    checkpointer.save(directory / "old", small_model(1), {}, state_at(1));
    checkpointer.wait();
    std::atomic<bool> is_committed = false;
    const test::SystemCalls faults([&](const Call& call) -> test::Reply {
      if (call.path.ends_with("/latest") && call.function.starts_with("renameat")) is_committed = true;
      return is_committed && call.function == "unlinkat" ? test::Reply::failure(EROFS) : true;
    });
    checkpointer.save(directory / (replaces ? "old" : "new"), small_model(2), {}, state_at(2));
    EXPECT_THAT(checkpointer.wait().warnings, ElementsAre(testing::HasSubstr("not deleted")));
    EXPECT_EQ(find_newest_checkpoint(directory.name())->step, 2U);
    // Nor a start.
    EXPECT_THAT(clean_stale_checkpoints(directory.name()).kept, ElementsAre(testing::HasSubstr("cannot remove")));
  }
}

TEST(Unfinished, IsRemovedAtTheNextStartAndCopiesOfItAreNot) {
  const test::TestDirectory directory(test::fastest_directory());
  CheckpointOptions options = scenarios()[0].options;
  options.commit = CommitMethod::kMarker;
  {
    const test::SystemCalls faults([&](const Call& call) -> test::Reply {
      if (call.path.ends_with("/commit.json")) throw std::runtime_error("it dies");
      return true;
    });
    AsyncCheckpointer checkpointer(options);
    checkpointer.save(directory / "new", small_model(1), {}, state_at(1));
    EXPECT_NE(test::message_of([&] { checkpointer.wait(); }), "");
  }
  EXPECT_EQ(list_checkpoints(directory.name()).at(0).status, CheckpointInfo::Status::kTemporary);
  CheckpointReadOptions any;
  any.commit = CheckpointReadOptions::Commit::kNotRequired;
  EXPECT_EQ(test::caught([&] { load_checkpoint(directory / "new", any); }),
            test::failure(ErrorCode::kCheckpointUncommitted));
  std::filesystem::copy(directory / "new", directory / "copy");
  EXPECT_THAT(clean_stale_checkpoints(directory.name()).removed, ElementsAre(directory / "new"));
  EXPECT_THAT(entries_of(directory), ElementsAre("copy"));
}

// The call of this number fails, or all from there on.
struct Fault {
  int error_number;
  bool lasts;
};

TEST(Fault, OfAnyCallIsReportedAndLeavesTheNewCheckpointOrTheOneBefore) {
  for (const Scenario& scenario : scenarios()) {
    for (const Fault& fault : {Fault{EIO, false}, Fault{ENOSPC, true}}) {
      bool through = false;
      unsigned at = 0;
      for (; !through; at += kStride) {
        const test::TestDirectory directory(test::fastest_directory());
        const std::string continues = save_old(scenario, directory.name());
        std::atomic<unsigned> calls = 0;
        std::string met;
        std::vector<std::string> warnings;
        std::string message;
        {
          const test::SystemCalls faults([&](const Call& call) -> test::Reply {
            const unsigned number = calls++;
            if (number == at) met = call.what;
            return number == at || (fault.lasts && number > at) ? test::Reply::failure(fault.error_number) : true;
          });
          message = test::message_of(
              [&] { warnings = save(scenario, directory / (scenario.new_name + 1), scenario.step(), continues); });
        }
        through = calls <= at;
        const bool is_told = !message.empty() || !warnings.empty();
        ASSERT_FALSE(is_told && through) << message;
        // A cache that is not dropped is read instead of the device; a file of a writer that stays is replaced.
        const bool is_harmless =
            (met.starts_with("forget ") && !fault.lasts) || met.find(".tzmark-writer") != std::string::npos;
        ASSERT_TRUE(is_told || through || is_harmless) << met;
        ASSERT_EQ(what_stays_wrong(scenario, directory.name(), !is_told), "") << "call " << at << ", " << met;
        // Without a rename, a checkpoint that a failed save has committed after all cannot be replaced.
        const bool replaces = scenario.options.commit != CommitMethod::kMarker;
        save(scenario, directory / (replaces ? scenario.new_name + 1 : "newer"), scenario.step(), continues);
        ASSERT_EQ(what_is_wrong(scenario, directory.name(), true), "") << "call " << at << ", after the next save";
      }
      EXPECT_GE(at, 30U);
    }
  }
}

// What a save does after a failed call must not make a loss of power worse.
TEST(Fault, OfAnyCallAndThenALossOfPowerLeaveACheckpoint) {
  std::size_t states = 0;
  for (const Scenario& scenario : scenarios()) {
    // Which calls there are hardly depends on the format.
    if (scenario.options.format == CheckpointOptions::Format::kTensors) continue;
    // Runs that go back and commits by a marker have as many calls as all others together, and fail at every eighth;
    // the test above fails at every call.
    const bool is_long = scenario.goes_back || scenario.options.commit == CommitMethod::kMarker;
    bool through = false;
    for (unsigned at = 0; !through; at += (is_long ? 8 : 1) * kStride) {
      unsigned calls = 0;
      bool is_told = false;
      std::string continues;
      test::PowerLossScenario power_loss = power_loss_in(scenario, continues);
      power_loss.random_states = 5;
      // Which syncs are needed, and what is left before the call, is the subject of the first test.
      power_loss.leaves_out_syncs = false;
      power_loss.only_after_failure = true;
      power_loss.hook = [&](const Call&) -> test::Reply { return calls++ == at ? test::Reply::failure(EIO) : true; };
      power_loss.change = [&](const std::string& directory) {
        std::vector<std::string> warnings;
        const auto change = [&] {
          warnings = save(scenario, directory + scenario.new_name, scenario.step(), continues);
        };
        is_told = !test::message_of(change).empty() || !warnings.empty();
      };
      power_loss.judge = [&](const std::string& directory, const test::Outcome& outcome) {
        return what_stays_wrong(scenario, directory, outcome.is_finished && !is_told);
      };
      const test::PowerLossReport report = test::lose_power(power_loss);
      ASSERT_THAT(report.bad, IsEmpty()) << "call " << at;
      states += report.states;
      through = calls <= at;
    }
  }
  std::cout << states << " states\n";
  EXPECT_GT(states, 8'000U / kStride);
}

TEST(Fault, LeavesNoTemporaryFilesBehind) {
  CheckpointOptions options;
  options.threads = 1;
  bool through = false;
  for (std::uint64_t at = 0; !through; ++at) {
    const test::TestDirectory directory(test::fastest_directory());
    AsyncCheckpointer before;
    before.save(directory / "a", small_model(1), {}, state_at(1));
    before.wait();
    std::atomic<std::uint64_t> calls = 0;
    bool exchanged = false;
    std::string message;
    {
      const test::SystemCalls faults([&](const Call& call) -> test::Reply {
        if (calls++ == at) return test::Reply::failure(ENOSPC);
        // A save tries before whether names can be exchanged.
        exchanged = exchanged || (call.what.starts_with("exchange ") && call.new_path.ends_with("/a"));
        return true;
      });
      AsyncCheckpointer checkpointer(options);
      checkpointer.save(directory / "a", small_model(2), {}, state_at(2));
      message = test::message_of([&] { checkpointer.wait(); });
    }
    through = calls <= at;
    ASSERT_TRUE(message.empty() || !through) << at;
    const std::uint64_t step = verify_checkpoint(directory / "a").step;
    ASSERT_TRUE(step == 2 || !message.empty()) << at;
    ASSERT_EQ(test::content_of(load_checkpoint(directory / "a").model), small_model(step).content());
    // From there on the old checkpoint has the temporary name, and may be the one that survives a loss of power.
    if (!exchanged) {
      ASSERT_THAT(test::entries_of(directory), ElementsAre("a", "latest")) << at;
    }
    clean_stale_checkpoints(directory.name());
    ASSERT_THAT(test::entries_of(directory), ElementsAre("a", "latest")) << at;
  }
}

}  // namespace
}  // namespace tzmark
