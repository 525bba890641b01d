// Tests of the model of a disk that loses power, and of what is recorded for it.
#include "testing/disk/crash_model.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "io/paths.h"
#include "testing/disk/power_loss.h"

namespace tzmark::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using Kind = DiskEvent::Kind;

constexpr std::size_t kSector = 512;

// A content whose sectors are of these letters each, and its inverse.
Bytes sectors(const std::string& letters) {
  Bytes bytes;
  for (const char letter : letters) bytes.insert(bytes.end(), kSector, static_cast<std::byte>(letter));
  return bytes;
}
std::string letters(const Bytes& content) {
  std::string text;
  for (std::size_t at = 0; at < content.size(); at += kSector) {
    text += content[at] == std::byte{0} ? '0' : static_cast<char>(content[at]);
  }
  return text;
}

// A directory with files that begin with a content, and what happens to them.
struct Trace : DiskTrace {
  Trace(std::initializer_list<std::pair<std::string, std::string>> contents) {
    DirectoryEntries entries;
    for (const auto& [name, content] : contents) entries[name] = entries.size() + 1;
    files.push_back({.entries = entries});
    for (const auto& [name, content] : contents) files.push_back({.content = sectors(content)});
  }
  void write(FileNumber file, std::size_t sector, const std::string& content) {
    events.push_back({Kind::kWrite, file, sector * kSector, content.size() * kSector, sectors(content)});
  }
  void set_names(const std::map<std::string, std::optional<FileNumber>>& names) {
    events.push_back({.kind = Kind::kNames, .file = 0, .names = names});
  }
};

// All states after the last event, as "name:content name:content".
std::set<std::string> states_after(const DiskTrace& trace, bool* has_partial_insertion = nullptr) {
  CrashModel model(trace);
  for (const DiskEvent& event : trace.events) model.apply(event);
  std::mt19937_64 random(7);
  std::set<std::string> found;
  for (int i = 0; i < 500; ++i) {
    const DiskState state = model.state(Survival::kSome, random);
    std::string text;
    for (const DiskState::Entry& entry : state.entries) text += " " + entry.path + ":" + letters(*entry.content);
    found.insert(text.substr(std::min<std::size_t>(1, text.size())));
    if (has_partial_insertion != nullptr) *has_partial_insertion |= state.has_partial_insertion;
  }
  return found;
}

TEST(CrashModelTest, TearsWhatIsNotSynced) {
  Trace trace{{"f", "ab"}};
  trace.write(1, 0, "AB");
  EXPECT_THAT(states_after(trace), UnorderedElementsAre("f:ab", "f:aB", "f:Ab", "f:AB"));
  trace.events.push_back({Kind::kSync, 1});
  EXPECT_THAT(states_after(trace), ElementsAre("f:AB"));
}

TEST(CrashModelTest, KeepsASizeWithoutItsBytes) {
  Trace trace{{"f", "a"}};
  trace.write(1, 1, "b");
  EXPECT_THAT(states_after(trace), UnorderedElementsAre("f:a", "f:a0", "f:ab"));
}

TEST(CrashModelTest, KeepsAllThatASectorHas) {
  Trace trace{{"f", "a"}};
  trace.write(1, 0, "b");
  trace.events.push_back({Kind::kResize, 1, 0});
  trace.write(1, 0, "c");
  EXPECT_THAT(states_after(trace), UnorderedElementsAre("f:a", "f:b", "f:", "f:c", "f:0"));
}

TEST(CrashModelTest, RenamesAtOnce) {
  Trace trace{{"f", "a"}, {"g", "b"}};
  trace.set_names({{"f", std::nullopt}, {"g", 1}});
  EXPECT_THAT(states_after(trace), UnorderedElementsAre("f:a g:b", "g:a"));
  trace.events.push_back({Kind::kSyncDirectory, 0});
  EXPECT_THAT(states_after(trace), ElementsAre("g:a"));
}

TEST(CrashModelTest, KeepsAnyChangesOfNames) {
  Trace trace{{"f", "a"}};
  trace.set_names({{"g", 1}});
  trace.set_names({{"f", std::nullopt}});
  EXPECT_THAT(states_after(trace), UnorderedElementsAre("f:a", "f:a g:a", "g:a", ""));
}

TEST(CrashModelTest, InsertsInPart) {
  Trace trace{{"f", "abcdefghABCDEFGH"}};
  trace.events.push_back({Kind::kInsert, 1, 0, 4096});
  bool has_partial_insertion = false;
  EXPECT_THAT(states_after(trace, &has_partial_insertion),
              UnorderedElementsAre("f:abcdefghABCDEFGH", "f:00000000abcdefghABCDEFGH", "f:abcdefgh00000000ABCDEFGH",
                                   "f:abcdefghABCDEFGH00000000"));
  EXPECT_TRUE(has_partial_insertion);
}

TEST(CrashModelTest, KeepsWritesOfALostInsertion) {
  Trace trace{{"f", "abcdefghA"}};
  trace.events.push_back({Kind::kInsert, 1, 0, 4096});
  trace.write(1, 16, "X");
  EXPECT_THAT(states_after(trace), Contains("f:abcdefghX"));
}

void require(bool done) {
  if (!done) throw std::runtime_error("a call has failed");
}

Descriptor create(const std::string& name) {
  Descriptor file(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  require(file.get() >= 0);
  return file;
}

// Whether bytes and names are synced.
void replace_file(const std::string& directory, bool syncs_file, bool syncs_directory) {
  const Descriptor file = create(directory + "/new");
  require(::pwrite(file.get(), "new", 3, 0) == 3);
  if (syncs_file) require(::fsync(file.get()) == 0);
  require(::rename((directory + "/new").c_str(), (directory + "/f").c_str()) == 0);
  const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (syncs_directory) require(::fsync(opened.get()) == 0);
}

PowerLossReport replace(bool syncs_file, bool syncs_directory) {
  const auto bytes_of = [](const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return Bytes(bytes.begin(), bytes.end());
  };
  PowerLossScenario scenario;
  scenario.prepare = [&](const std::string& directory) { write_whole(directory + "/f", bytes_of("old")); };
  scenario.change = [&](const std::string& directory) { replace_file(directory, syncs_file, syncs_directory); };
  scenario.judge = [&](const std::string& directory, const Outcome& outcome) -> std::string {
    const Bytes content = read_whole(directory + "/f");
    const bool is_good = content == bytes_of("new") || (!outcome.is_finished && content == bytes_of("old"));
    return is_good ? "" : "another content";
  };
  return lose_power(scenario);
}

TEST(PowerLossModelTest, FindsWhatIsNotSynced) {
  EXPECT_THAT(replace(true, true).bad, IsEmpty());
  EXPECT_THAT(replace(true, true).unnoticed_syncs, IsEmpty());
  EXPECT_THAT(replace(false, true).bad, Contains("another content, after: rename /new /f"));
  EXPECT_THAT(replace(true, false).bad,
              Contains("the change has returned, and names are not durable, after: rename /new /f"));
}

TEST(PowerLossModelTest, FindsSyncsThatNothingNeeds) {
  PowerLossScenario scenario;
  scenario.prepare = [](const std::string& directory) { write_whole(directory + "/f", sectors("a")); };
  scenario.change = [](const std::string& directory) { require(::fsync(create(directory + "/f").get()) == 0); };
  scenario.judge = [](const std::string&, const Outcome&) { return std::string(); };
  EXPECT_THAT(lose_power(scenario).unnoticed_syncs, ElementsAre("sync /f"));
}

// A random call of each kind that is recorded.
void make_any_call(const std::string& directory, std::mt19937_64& random) {
  const auto any_name = [&] {
    static constexpr std::array kNames = {"/a", "/b", "/c", "/d", "/d/a", "/d/b"};
    return directory + kNames[random() % kNames.size()];
  };
  const auto may_fail = [](ssize_t) {};
  const std::string name = any_name(), other = any_name();
  const Descriptor file(::open(name.c_str(), O_RDWR | (random() % 2 == 0 ? O_CREAT : 0) | O_CLOEXEC, 0600));
  const auto offset = static_cast<off_t>(random() % 3000);
  switch (random() % 12) {
    case 0:
      may_fail(::pwrite(file.get(), name.data(), name.size(), offset));
      break;
    case 1:
      may_fail(::ftruncate(file.get(), offset));
      break;
    case 2:
      may_fail(::fallocate(file.get(), 0, offset, 100));
      break;
    case 3:
      may_fail(::fsync(file.get()));
      break;
    case 4:
      may_fail(::rename(name.c_str(), other.c_str()));
      break;
    case 5:
      may_fail(::renameat2(AT_FDCWD, name.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE));
      break;
    case 6:
      may_fail(::link(name.c_str(), other.c_str()));
      break;
    case 7:
      may_fail(::unlink(name.c_str()));
      break;
    case 8:
      may_fail(::mkdir((directory + "/d").c_str(), 0700));
      break;
    case 9:
      may_fail(::rmdir((directory + "/d").c_str()));
      break;
    case 10:
      static_cast<void>(::open(name.c_str(), O_RDWR | O_TRUNC | O_CLOEXEC));
      break;
    default: {
      const Descriptor unnamed(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
      const std::string path = "/proc/self/fd/" + std::to_string(unnamed.get());
      may_fail(::pwrite(unnamed.get(), "unnamed", 7, 0));
      may_fail(::linkat(AT_FDCWD, path.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW));
    }
  }
}

// lose_power throws if the events do not lead to what is in the directory in the end.
TEST(PowerLossModelTest, RecordsEveryCall) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    PowerLossScenario scenario;
    scenario.prepare = [](const std::string& directory) { write_whole(directory + "/a", sectors("a")); };
    scenario.change = [&](const std::string& directory) {
      for (int i = 0; i < 60; ++i) make_any_call(directory, random);
    };
    scenario.judge = [](const std::string&, const Outcome&) { return std::string(); };
    scenario.random_states = 4;
    EXPECT_NO_THROW(lose_power(scenario)) << seed;
  }
}

}  // namespace
}  // namespace tzmark::test
