// What is left of .tensors files if the power goes while they are written or changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <cerrno>
#include <filesystem>
#include <iostream>

#include "testing/disk/power_loss.h"
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

Content content_with(const std::string& name, std::uint64_t data_bytes) {
  Content content = test::three_tensors();
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
  std::string old_content, new_content;

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

// Files that appear whole or not at all.
std::string judge_written(const std::string& directory, const Outcome& outcome, const Expected& expected) {
  const std::string name = directory + kName;
  if (!std::filesystem::exists(name)) {
    return expected.old_content.empty() && !outcome.is_finished ? "" : "the file is gone";
  }
  try {
    return expected.judge(whole_content(name), outcome.is_finished);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(PowerLossTest, WritesANewFile) {
  PowerLossScenario scenario;
  scenario.prepare = [](const std::string&) {};
  scenario.change = [](const std::string& directory) { write(directory, content_with("x", 30'000)); };
  const Expected expected = expect(scenario);
  scenario.judge = [&](const auto& directory, const auto& outcome) {
    return judge_written(directory, outcome, expected);
  };
  const PowerLossReport report = tell(lose_power(scenario));
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

TEST(PowerLossTest, ReplacesAFile) {
  PowerLossScenario scenario;
  scenario.prepare = [](const std::string& directory) { write(directory, content_with("old", 20'000)); };
  scenario.change = [](const std::string& directory) { write(directory, content_with("x", 30'000)); };
  const Expected expected = expect(scenario);
  scenario.judge = [&](const auto& directory, const auto& outcome) {
    return judge_written(directory, outcome, expected);
  };
  const PowerLossReport report = tell(lose_power(scenario));
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

// A file that is changed in place: readers refuse it, or it is recovered.
std::string judge_changed(const std::string& directory, const Outcome& outcome, const Expected& expected) {
  const std::string name = directory + kName;
  try {
    const std::string wrong = expected.judge(whole_content(name), false);
    if (!wrong.empty()) return "before recovery, " + wrong;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEditInterrupted) return std::string("readers see no journal: ") + error.what();
  }
  try {
    recover(name);
    return expected.judge(whole_content(name), outcome.is_finished);
  } catch (const Error& error) {
    const bool may_refuse = outcome.has_partial_insertion && error.code() == ErrorCode::kEditInterrupted;
    return may_refuse ? "" : error.what();
  }
}

Reply insert_by_file_system(const Call& call) {
  if (call.function != "fallocate" || call.flags != FALLOC_FL_INSERT_RANGE) return true;
  return Reply::instead([fd = call.fd, at = call.offset, bytes = call.bytes] { return test::insert_range(fd, at, bytes); });
}

Reply insert_by_copying(const Call& call) {
  if (call.function != "fallocate" || call.flags != FALLOC_FL_INSERT_RANGE) return true;
  return Reply::failure(EOPNOTSUPP);
}

class ChangeInPlace : public ::testing::Test {
 protected:
  PowerLossReport change(const std::function<void(const std::string& name)>& change,
                         test::SystemCalls::Hook hook = insert_by_file_system) {
    PowerLossScenario scenario;
    scenario.prepare = [](const std::string& directory) { write(directory, content_with("big", 20'000)); };
    scenario.change = [&](const std::string& directory) { change(directory + kName); };
    scenario.hook = std::move(hook);
    const Expected expected = expect(scenario);
    scenario.judge = [&](const auto& directory, const auto& outcome) {
      return judge_changed(directory, outcome, expected);
    };
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
  const PowerLossReport report = change([](const auto& name) { append(name, one_tensor("x", 12'000)); });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

TEST_F(ChangeInPlace, RenamesAndDrops) {
  const PowerLossReport report = change([](const auto& name) {
    edit(name, {{.tensor = {"b"}, .new_path = Path{"c"}}, {.tensor = {"a.weight"}, .drop = true}});
  });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

TEST_F(ChangeInPlace, GivesAnotherKind) {
  const PowerLossReport report = change([](const auto& name) { edit(name, {{.tensor = {"big"}, .new_kind = Kind::kBuffer}}); });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

// More than is free in any segment.
const std::string kLong = "long." + std::string(9'000, 'x');

TEST_F(ChangeInPlace, GrowsByInsertedRanges) {
  const PowerLossReport report = change([](const auto& name) { append(name, one_tensor(kLong, 5'000)); });
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

TEST_F(ChangeInPlace, GrowsByCopying) {
  const PowerLossReport report =
      change([](const auto& name) { append(name, one_tensor(kLong, 5'000)); }, insert_by_copying);
  EXPECT_THAT(report.bad, IsEmpty());
  EXPECT_THAT(report.unnoticed_syncs, IsEmpty());
}

}  // namespace
}  // namespace tzmark
