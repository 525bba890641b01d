// What is left of .tensors files if the power goes while they are written or changed, and what becomes of early
// writeback in changes in place.
#include "testing/disk/power_loss.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "testing/disk/trace.h"
#include "testing/files/tensors_files.h"
#include "testing/files/test_directory.h"
#include "tzmark/canonical.h"
#include "tzmark/edit.h"

namespace tzmark {
namespace {

using test::Call;
using test::Content;
using test::expect_safe;
using test::Outcome;
using test::PowerLossScenario;
using test::Reply;
using ::testing::AnyOf;
using ::testing::ElementsAre;

constexpr const char* kName = "/file.tensors";

// Headers and index of several sectors.
Content content_with(const std::string& name, std::uint64_t data_bytes) {
  Content content = test::three_tensors();
  for (std::uint64_t layer = 0; layer < 40; ++layer) content.add({"layers", layer, "weight"}, "float16", {20});
  content.add({name}, "uint8", {data_bytes});
  return content;
}

WriteOptions write_options(bool split = false) {
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  options.detached_data = split;
  options.io_path = "pwrite";
  options.threads = 1;
  options.piece_bytes = 4096;
  return options;
}

void write(const std::string& directory, const Content& content, const WriteOptions& options = write_options()) {
  write_file(directory + kName, content.table, content.source(), options);
}

// Everything that a reader can tell of a file, all hashes verified. Throws what the reader does.
std::string whole_content(const std::string& name, const std::string& data_file_name = {}) {
  ReadOptions options;
  options.io_path = "pwrite";
  options.threads = 1;
  options.data_file_name = data_file_name;
  const Reader reader = Reader::open(name, std::move(options));
  reader.verify();
  return canonical_json(reader);
}

// The contents before and after a change.
struct Expected {
  std::string old_content, new_content;  // empty: no file

  // What is wrong if a file has this content.
  std::string judge(const std::string& content, bool is_finished) const {
    if (content == new_content || (!is_finished && content == old_content)) return {};
    return content == old_content ? "the change is lost" : "the content is neither the old one nor the new one";
  }
};

Expected expect(const PowerLossScenario& scenario, const std::string& data_suffix = {}) {
  const test::TestDirectory directory;
  const std::string name = directory.name() + kName, data = data_suffix.empty() ? "" : name + data_suffix;
  Expected expected;
  scenario.prepare(directory.name());
  if (std::filesystem::exists(name)) expected.old_content = whole_content(name, data);
  scenario.change(directory.name());
  expected.new_content = whole_content(name, data);
  return expected;
}

// What is wrong if the file is not there.
std::string judge_absence(const Outcome& outcome, const Expected& expected) {
  return expected.old_content.empty() && !outcome.is_finished ? "" : "the file is gone";
}

// Files that appear whole or not at all.
std::string judge_written(const std::string& directory, const Outcome& outcome, const Expected& expected) {
  const std::string name = directory + kName;
  if (!std::filesystem::exists(name)) return judge_absence(outcome, expected);
  try {
    return expected.judge(whole_content(name), outcome.is_finished);
  } catch (const Error& error) {
    return error.what();
  }
}

void write_old(const std::string& directory) { write(directory, content_with("old", 20'000)); }
void write_new(const std::string& directory) { write(directory, content_with("new", 60'000)); }

PowerLossScenario writing(bool replaces) {
  PowerLossScenario scenario;
  scenario.prepare = [=](const std::string& directory) {
    if (replaces) write_old(directory);
  };
  scenario.change = write_new;
  scenario.judge = [expected = expect(scenario)](const auto& directory, const auto& outcome) {
    return judge_written(directory, outcome, expected);
  };
  return scenario;
}

TEST(PowerLossTest, WritesAFile) { expect_safe(writing(false), 100); }

TEST(PowerLossTest, ReplacesAFile) { expect_safe(writing(true), 100); }

std::string pair_content(const std::string& head, const std::string& data) {
  try {
    return whole_content(head, data);
  } catch (const Error&) {
    return {};
  }
}

// Two files that belong together. FORMAT.md, appendix A, says how the old pair is put together again.
std::string judge_pair(const std::string& directory, const Outcome& outcome, const Expected& expected) {
  const std::string head = directory + kName, data = detached_data_file_name(head);
  if (!std::filesystem::exists(head)) return judge_absence(outcome, expected);
  try {
    return expected.judge(whole_content(head, data), outcome.is_finished);
  } catch (const Error& error) {
    if (outcome.is_finished || error.code() != ErrorCode::kDetachedDataPair) return error.what();
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path();
    if (name.starts_with(data + ".tmp-") && pair_content(head, name) == expected.old_content) return {};
  }
  return "the old pair cannot be put together again";
}

Reply lack_exchange(const Call& call) {
  if (call.function == "renameat2") return Reply::failure(EINVAL);
  return true;
}

PowerLossScenario writing_pair(bool replaces) {
  PowerLossScenario scenario;
  scenario.prepare = [=](const std::string& directory) {
    if (replaces) write(directory, content_with("old", 20'000), write_options(true));
  };
  scenario.change = [](const std::string& directory) {
    write(directory, content_with("new", 60'000), write_options(true));
  };
  scenario.judge = [expected = expect(scenario, ".data")](const auto& directory, const auto& outcome) {
    return judge_pair(directory, outcome, expected);
  };
  return scenario;
}

TEST(PowerLossTest, WritesADetachedPair) { expect_safe(writing_pair(false), 200); }

TEST(PowerLossTest, ReplacesADetachedPair) { expect_safe(writing_pair(true), 200); }

TEST(PowerLossTest, ReplacesADetachedPairWhereNamesCannotBeExchanged) {
  PowerLossScenario scenario = writing_pair(true);
  scenario.hook = lack_exchange;
  expect_safe(scenario, 200);
}

// The last calls that change names, or sync files and names, while the action runs. The first ones depend on whether
// the file system has files without names.
std::vector<std::string> last_calls(std::size_t count, const std::function<void()>& action,
                                    const test::SystemCalls::Hook& hook) {
  std::vector<std::string> seen;
  {
    const test::SystemCalls calls(hook, [&](const Call& call, std::int64_t) {
      const bool changes_names = !call.new_path.empty() || call.function.starts_with("unlink");
      const bool syncs = call.kind == Call::Kind::kSyncDirectory || call.kind == Call::Kind::kSync;
      if (changes_names || syncs) seen.emplace_back(call.function);
    });
    action();
  }
  seen.erase(seen.begin(), seen.end() - static_cast<std::ptrdiff_t>(std::min(count, seen.size())));
  return seen;
}

// The old data file is durable under another name before the new one takes its name.
TEST(PowerLossTest, PutsTheOldDataFileAsideFirst) {
  const test::TestDirectory directory;
  const PowerLossScenario scenario = writing_pair(true);
  scenario.prepare(directory.name());
  const auto calls = last_calls(
      9, [&] { scenario.change(directory.name()); }, lack_exchange);
  EXPECT_THAT(calls, ElementsAre("linkat", "fsync", "renameat", "fsync",  // the data
                                 "renameat", "fsync",                     // the head
                                 "unlinkat", "fsync",                     // the old data
                                 "unlinkat"));                            // the lock
}

// A file that is changed in place: readers refuse it, or it is recovered.
std::string judge_changed(const std::string& directory, const Outcome& outcome, const Expected& expected) {
  const std::string name = directory + kName;
  try {
    const std::string wrong = expected.judge(whole_content(name), outcome.is_finished);
    if (!wrong.empty()) return "before recovery, " + wrong;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEditInterrupted) return std::string("readers see no journal: ") + error.what();
    if (outcome.is_finished) return "the change has returned, and readers see a journal";
  }
  try {
    recover(name);
    return expected.judge(whole_content(name), outcome.is_finished);
  } catch (const Error& error) {
    const bool may_refuse = outcome.has_partial_insertion && error.code() == ErrorCode::kEditInterrupted;
    return may_refuse ? "" : error.what();
  }
}

bool inserts(const Call& call) { return call.function == "fallocate" && call.flags == FALLOC_FL_INSERT_RANGE; }

Reply insert_by_file_system(const Call& call) {
  if (!inserts(call)) return true;
  return Reply::instead(
      [fd = call.fd, at = call.offset, bytes = call.bytes] { return test::insert_range(fd, at, bytes); });
}

Reply insert_by_copying(const Call& call) {
  if (!inserts(call)) return true;
  return Reply::failure(EOPNOTSUPP);
}

Reply name_every_file(const Call& call) {
  if ((call.flags & O_TMPFILE) == O_TMPFILE && call.function == "openat") return Reply::failure(EOPNOTSUPP);
  return insert_by_file_system(call);
}

// As NFS does.
Reply lack_unnamed_files_and_exchange(const Call& call) {
  return call.function == "renameat2" ? Reply::failure(EINVAL) : name_every_file(call);
}

using Change = std::function<void(const std::string& name)>;

PowerLossScenario changing(const Change& change, test::SystemCalls::Hook hook = insert_by_file_system) {
  PowerLossScenario scenario;
  scenario.prepare = write_old;
  scenario.change = [=](const std::string& directory) { change(directory + kName); };
  scenario.hook = std::move(hook);
  scenario.judge = [expected = expect(scenario)](const auto& directory, const auto& outcome) {
    return judge_changed(directory, outcome, expected);
  };
  return scenario;
}

void append(const std::string& name, const std::string& tensor, std::uint64_t data_bytes) {
  Content content;
  content.add({tensor}, "uint8", {data_bytes});
  append_tensors(name, content.table, content.source(), write_options());
}

void append_data(const std::string& name) { append(name, "x", 50'000); }
// Makes both segments grow.
void append_long_name(const std::string& name) { append(name, "long." + std::string(20'000, 'x'), 9'000); }

void edit(const std::string& name, const std::vector<TensorEdit>& edits) {
  EditOptions options;
  options.io_path = "pwrite";
  edit_tensors(name, edits, std::move(options));
}

void rename_layers(const std::string& name) {
  std::vector<TensorEdit> edits;
  for (std::uint64_t layer = 0; layer < 20; ++layer) {
    edits.push_back({.tensor = {"layers", layer, "weight"}, .new_path = Path{"moved", layer, "w"}});
  }
  edit(name, edits);
}
void drop_one(const std::string& name) { edit(name, {{.tensor = {"b"}, .drop = true}}); }
void retype_one(const std::string& name) { edit(name, {{.tensor = {"old"}, .new_kind = Kind::kBuffer}}); }

TEST(ChangeInPlacePowerLossTest, Appends) { expect_safe(changing(append_data), 3000); }

TEST(ChangeInPlacePowerLossTest, Renames) { expect_safe(changing(rename_layers), 400); }

TEST(ChangeInPlacePowerLossTest, Drops) { expect_safe(changing(drop_one), 400); }

TEST(ChangeInPlacePowerLossTest, GivesAnotherKind) { expect_safe(changing(retype_one), 10); }

TEST(ChangeInPlacePowerLossTest, RenamesWhereEveryFileHasAName) {
  expect_safe(changing(rename_layers, name_every_file), 400);
}

TEST(ChangeInPlacePowerLossTest, RenamesWhereNoCallRenamesWithoutReplacing) {
  expect_safe(changing(rename_layers, lack_unnamed_files_and_exchange), 400);
}

TEST(ChangeInPlacePowerLossTest, GrowsByInsertedRanges) {
  // The removal of a journal of an insertion: the next journal takes its name, and is durable before anything changes.
  expect_safe(changing(append_long_name), 1700, {"sync directory directory", "sync directory directory"});
}

TEST(ChangeInPlacePowerLossTest, GrowsByCopying) {
  // The creation of a journal of an insertion, which then turns out not to happen.
  expect_safe(changing(append_long_name, insert_by_copying), 2000,
              {"sync directory directory", "sync directory directory"});
}

// A journal that has its size and not its bytes would be refused as a damaged one.
TEST(ChangeInPlacePowerLossTest, SyncsAJournalBeforeItHasItsName) {
  const test::TestDirectory directory;
  write_old(directory.name());
  const auto calls = last_calls(
      6, [&] { rename_layers(directory.name() + kName); }, insert_by_file_system);
  EXPECT_THAT(calls, ElementsAre("fsync", AnyOf("linkat", "renameat"), "fsync",  // the journal
                                 "fsync",                                        // the file
                                 "unlinkat", "fsync"));
}

// Recovery of a change whose process died at a call.
PowerLossScenario recovering(const Change& change, const std::function<bool(const Call&)>& dies_at) {
  PowerLossScenario scenario;
  scenario.prepare = [=](const std::string& directory) {
    write_old(directory);
    test::SystemCalls calls([&](const Call& call) -> Reply {
      if (dies_at(call)) throw std::runtime_error("the process is killed");
      return insert_by_file_system(call);
    });
    EXPECT_TRUE(test::error_of([&] { change(directory + kName); }));
    EXPECT_TRUE(calls.is_dead());
  };
  scenario.change = [](const std::string& directory) { recover(directory + kName); };
  const test::TestDirectory directory;
  write_old(directory.name());
  const std::string content = whole_content(directory.name() + kName);
  scenario.judge = [expected = Expected{content, content}](const auto& state, const auto& outcome) {
    return judge_changed(state, outcome, expected);
  };
  return scenario;
}

bool syncs_file(const Call& call) { return call.kind == Call::Kind::kSync && call.path.ends_with(kName); }

Growth append_one(const std::string& name, const std::string& tensor, std::uint64_t bytes) {
  Content content;
  content.add({tensor}, "uint8", {bytes});
  WriteOptions options;
  options.io_path = "pwrite";
  return append_tensors(name, content.table, content.source(), std::move(options));
}

// Large writes of a change in place begin at once, so that its sync has little left to do.
TEST(EarlyWriteback, OfAppendedDataAndOfACopyWithMoreRoom) {
  constexpr std::uint64_t kBytes = 1 << 20;
  const auto pages_at_ends = 2 * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const test::TestDirectory directory;
  const std::string name = directory.name() + kName;
  write_old(directory.name());
  std::atomic<std::uint64_t> begun_bytes = 0;
  const test::SystemCalls calls([&](const Call& call) -> Reply {
    if (call.function == "sync_file_range") begun_bytes += call.bytes;
    // No range can be inserted.
    if (call.function == "fallocate") return Reply::failure(EOPNOTSUPP);
    return true;
  });
  ASSERT_EQ(append_one(name, "large", kBytes).times, 0U);
  const std::uint64_t of_append = begun_bytes;
  EXPECT_GE(of_append, kBytes - pages_at_ends);
  ASSERT_GT(append_one(name, std::string(60'000, 'x'), 1).copied_bytes, kBytes);
  EXPECT_GE(begun_bytes - of_append, kBytes - pages_at_ends);
}

TEST(EarlyWriteback, ThatFailsIsUndone) {
  const test::TestDirectory directory;
  const std::string name = directory.name() + kName;
  write_old(directory.name());
  const test::Bytes before = test::read_whole(name);
  int syncs = 0;
  {
    const test::SystemCalls calls([&](const Call& call) -> Reply {
      if (call.function == "sync_file_range") return Reply::failure(EIO);
      // The second one is that of the recovery, to which the kernel may report the same failure.
      if (syncs_file(call) && ++syncs == 2) return Reply::failure(EIO);
      return true;
    });
    EXPECT_EQ(test::error_of([&] { append_one(name, "large", 1 << 20); }), ErrorCode::kSyncFailed);
  }
  EXPECT_EQ(syncs, 3);
  EXPECT_EQ(recover(name), Recovery::kNothing);
  EXPECT_EQ(test::read_whole(name), before);
  EXPECT_THAT(directory.entries(), ElementsAre(kName + 1));
}

// Without unnamed files, a killed process leaves its journal under a temporary name.
TEST(UnfinishedJournalTest, IsListed) {
  const test::TestDirectory directory;
  const std::string name = directory.name() + kName;
  write_old(directory.name());
  {
    test::SystemCalls calls([](const Call& call) -> Reply {
      if (call.function == "renameat2") throw std::runtime_error("the process is killed");
      return name_every_file(call);
    });
    EXPECT_TRUE(test::error_of([&] { drop_one(name); }));
    EXPECT_TRUE(calls.is_dead());
  }
  EXPECT_EQ(recover(name), Recovery::kNothing);
  EXPECT_THAT(unfinished_files(name), ElementsAre(::testing::StartsWith(name + ".tzmark-intent.tmp-")));
}

TEST(RecoveryPowerLossTest, PutsOldBytesBack) { expect_safe(recovering(rename_layers, syncs_file), 200); }

TEST(RecoveryPowerLossTest, CutsTheFile) { expect_safe(recovering(append_data, syncs_file), 200); }

TEST(RecoveryPowerLossTest, FinishesAnInsertion) { expect_safe(recovering(append_long_name, syncs_file), 4); }

}  // namespace
}  // namespace tzmark
