// What is left of .tensors files if the power goes while they are written or changed.
#include "testing/disk/power_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <cerrno>
#include <filesystem>
#include <iostream>

#include "testing/disk/trace.h"
#include "testing/files/tensors_files.h"
#include "testing/files/test_directory.h"
#include "tzmark/canonical.h"
#include "tzmark/edit.h"

namespace tzmark {
namespace {

using test::Call;
using test::Content;
using test::Outcome;
using test::PowerLossReport;
using test::PowerLossScenario;
using test::Reply;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kName = "/file.tensors";

// Headers and index of several sectors.
Content content_with(const std::string& name, std::uint64_t data_bytes) {
  Content content = test::three_tensors();
  for (std::uint64_t layer = 0; layer < 40; ++layer) content.add({"layers", layer, "weight"}, "float16", {20});
  content.add({name}, "uint8", {data_bytes});
  return content;
}

Content one_tensor(const std::string& name, std::uint64_t data_bytes) {
  Content content;
  content.add({name}, "uint8", {data_bytes});
  return content;
}

WriteOptions write_options(bool split = false) {
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  options.split = split;
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

PowerLossReport tell(PowerLossReport report) {
  std::cout << report.states << " states, " << report.syncs << " syncs\n";
  return report;
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

TEST(PowerLossTest, WritesAFile) {
  for (const bool replaces : {false, true}) {
    PowerLossScenario scenario;
    scenario.prepare = [&](const std::string& directory) {
      if (replaces) write_old(directory);
    };
    scenario.change = write_new;
    const Expected expected = expect(scenario);
    scenario.judge = [&](const auto& directory, const auto& outcome) {
      return judge_written(directory, outcome, expected);
    };
    const PowerLossReport report = tell(lose_power(scenario));
    EXPECT_THAT(report.bad, IsEmpty());
    EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
  }
}

std::string pair_content(const std::string& head, const std::string& data) {
  try {
    return whole_content(head, data);
  } catch (const Error&) {
    return {};
  }
}

// Two files that belong together. FORMAT.md, appendix A, says how the old pair is put together again.
std::string judge_pair(const std::string& directory, const Outcome& outcome, const Expected& expected) {
  const std::string head = directory + kName, data = split_data_file_name(head);
  if (!std::filesystem::exists(head)) return judge_absence(outcome, expected);
  try {
    return expected.judge(whole_content(head, data), outcome.is_finished);
  } catch (const Error& error) {
    if (outcome.is_finished || error.code() != ErrorCode::kDetachedData) return error.what();
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

Reply lack_nothing(const Call&) { return true; }

TEST(PowerLossTest, WritesADetachedPair) {
  for (const auto& hook : {lack_nothing, lack_exchange}) {
    for (const bool replaces : {false, true}) {
      SCOPED_TRACE(replaces);
      SCOPED_TRACE(hook == lack_exchange);
      PowerLossScenario scenario;
      scenario.hook = hook;
      scenario.prepare = [&](const std::string& directory) {
        if (replaces) write(directory, content_with("old", 20'000), write_options(true));
      };
      scenario.change = [](const std::string& directory) {
        write(directory, content_with("new", 60'000), write_options(true));
      };
      const Expected expected = expect(scenario, ".data");
      scenario.judge = [&](const auto& directory, const auto& outcome) {
        return judge_pair(directory, outcome, expected);
      };
      const PowerLossReport report = tell(lose_power(scenario));
      EXPECT_THAT(report.bad, IsEmpty());
      EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
    }
  }
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

class ChangeInPlace : public ::testing::Test {
 protected:
  PowerLossReport change(const std::function<void(const std::string& name)>& change,
                         test::SystemCalls::Hook hook = insert_by_file_system) {
    PowerLossScenario scenario;
    scenario.prepare = write_old;
    scenario.change = [&](const std::string& directory) { change(directory + kName); };
    scenario.hook = std::move(hook);
    const Expected expected = expect(scenario);
    scenario.judge = [&](const auto& directory, const auto& outcome) {
      return judge_changed(directory, outcome, expected);
    };
    return tell(lose_power(scenario));
  }

  // The recovery of a change that has died at a call.
  PowerLossReport recover_from(const std::function<void(const std::string& name)>& change,
                               const std::function<bool(const Call&)>& dies_at) {
    PowerLossScenario scenario;
    scenario.prepare = [&](const std::string& directory) {
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
    const Expected expected{content, content};
    scenario.judge = [&](const auto& state, const auto& outcome) { return judge_changed(state, outcome, expected); };
    return tell(lose_power(scenario));
  }

  static void append(const std::string& name, const Content& content) {
    append_tensors(name, content.table, content.source(), write_options());
  }
  static void edit(const std::string& name, const std::vector<TensorEdit>& edits) {
    EditOptions options;
    options.io_path = "pwrite";
    edit_tensors(name, edits, std::move(options));
  }
};

TEST_F(ChangeInPlace, Appends) {
  const PowerLossReport report = change([](const auto& name) { append(name, one_tensor("x", 50'000)); });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

void rename_layers(const std::string& name) {
  std::vector<TensorEdit> edits;
  for (std::uint64_t layer = 0; layer < 20; ++layer) {
    edits.push_back({.tensor = {"layers", layer, "weight"}, .new_path = Path{"moved", layer, "w"}});
  }
  EditOptions options;
  options.io_path = "pwrite";
  edit_tensors(name, edits, std::move(options));
}

TEST_F(ChangeInPlace, Renames) {
  const PowerLossReport report = change(rename_layers);
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

TEST_F(ChangeInPlace, Drops) {
  const PowerLossReport report = change([](const auto& name) { edit(name, {{.tensor = {"b"}, .drop = true}}); });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

TEST_F(ChangeInPlace, GivesAnotherKind) {
  const PowerLossReport report =
      change([](const auto& name) { edit(name, {{.tensor = {"old"}, .new_kind = Kind::kBuffer}}); });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

// Makes both segments grow.
void append_long_name(const std::string& name) {
  const Content content = one_tensor("long." + std::string(20'000, 'x'), 9'000);
  append_tensors(name, content.table, content.source(), write_options());
}

TEST_F(ChangeInPlace, GrowsByInsertedRanges) {
  const PowerLossReport report = change(append_long_name);
  EXPECT_THAT(report.bad, IsEmpty());
  // The removal of a journal of an insertion: the next journal takes its name, and is durable before anything changes.
  EXPECT_THAT(report.unnoticed_syncs, ElementsAre("sync directory directory", "sync directory directory"));
}

TEST_F(ChangeInPlace, GrowsByCopying) {
  const PowerLossReport report = change(append_long_name, insert_by_copying);
  EXPECT_THAT(report.bad, IsEmpty());
  // The creation of a journal of an insertion, which then turns out not to happen.
  EXPECT_THAT(report.unnoticed_syncs, ElementsAre("sync directory directory", "sync directory directory"));
}

bool is_change_of_file(const Call& call) {
  return call.path.ends_with(kName) && (call.kind == Call::Kind::kWrite || call.kind == Call::Kind::kChange);
}

TEST_F(ChangeInPlace, IsUndone) {
  int changes = 0;
  const PowerLossReport report =
      recover_from(rename_layers, [&](const Call& call) { return is_change_of_file(call) && ++changes % 4 == 0; });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

TEST_F(ChangeInPlace, IsUndoneThatMadeTheFileLonger) {
  const PowerLossReport report =
      recover_from([](const auto& name) { append(name, one_tensor("x", 50'000)); },
                   [](const Call& call) { return call.kind == Call::Kind::kSync && call.path.ends_with(kName); });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

TEST_F(ChangeInPlace, IsFinishedThatInsertedARange) {
  const PowerLossReport report = recover_from(
      append_long_name, [&](const Call& call) { return call.kind == Call::Kind::kSync && call.path.ends_with(kName); });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

}  // namespace
}  // namespace tzmark
