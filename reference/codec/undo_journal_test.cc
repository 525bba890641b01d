// Which undo journals count: what somebody else has put there, what is about another file, and what says too much.
#include "codec/undo_journal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "codec/in_place_edit.h"
#include "testing/files/corpus.h"
#include "testing/files/edits.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::Content;
using test::EditTest;
using test::error_of;
using test::one;
using test::read_whole;
using test::write_whole;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

// A file in the middle of a change, and its journal.
class UndoJournalTest : public EditTest {
 protected:
  void SetUp() override {
    put(one({"x"}, 300'000));
    old_bytes_ = bytes();
    begin_change();
  }

  // What an append of 1,000 bytes would have overwritten and written by now.
  void begin_change() {
    const InPlaceFile locked(name_);
    const auto file = locked.open();
    const std::uint64_t size = file->size();
    EXPECT_TRUE(write_overwrite_journal(locked, *file, {{0, 100}, {4'000, 200}}, size + 1'000));
    for (const std::uint64_t at : {std::uint64_t{10}, std::uint64_t{4'100}, size}) {
      file->write_at(at, std::span<const std::byte>(Bytes(50, std::byte{7})));
    }
    whole_ = read_whole(journal_);
  }

  // The journal with another header, which is right in itself.
  void forge(const std::function<void(UndoJournalHeaderWire&)>& change, std::uint64_t first_range_length = 100) {
    Bytes forged = whole_;
    UndoJournalHeaderWire header;
    std::memcpy(&header, forged.data(), sizeof header);
    change(header);
    header.crc32 = crc32_of(header);
    std::memcpy(forged.data(), &header, sizeof header);
    std::memcpy(forged.data() + sizeof header + 8, &first_range_length, 8);
    Sha256 digest;
    digest.update(std::span(forged).first(forged.size() - 32));
    const Sha256Digest sha = digest.finish();
    std::ranges::copy(sha, forged.end() - 32);
    write_whole(journal_, forged);
  }

  static std::string message_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kEditInterrupted) << error.what();
      return error.message();
    }
    ADD_FAILURE() << "it is obeyed";
    return {};
  }

  // Nothing that writes obeys the journal, and nothing that reads passes it by.
  void expect_refused(const std::string& why) {
    const Bytes before = bytes();
    EXPECT_THAT(message_of([&] { recover(name_); }), HasSubstr(why));
    EXPECT_THAT(message_of([&] { append(one({"y"})); }), HasSubstr(why));
    EXPECT_EQ(error_of([&] { reader(); }), ErrorCode::kEditInterrupted);
    EXPECT_EQ(bytes(), before);
    EXPECT_TRUE(has_undo_journal(name_));
  }

  void expect_obeyed() {
    EXPECT_EQ(recover(name_), Recovery::kUndone);
    EXPECT_EQ(bytes(), old_bytes_);
    EXPECT_FALSE(has_undo_journal(name_));
  }

  Bytes old_bytes_, whole_;
};

TEST_F(UndoJournalTest, IsObeyedAsItWasWritten) {
  forge([](UndoJournalHeaderWire&) {});
  EXPECT_EQ(read_whole(journal_), whole_);
  expect_obeyed();
}

TEST_F(UndoJournalTest, IsARegularFileOfOneName) {
  const std::string elsewhere = directory_ / "elsewhere";
  fs::rename(journal_, elsewhere);
  fs::create_symlink("elsewhere", journal_);
  expect_refused("symbolic link");
  fs::remove(journal_);
  fs::create_symlink("nowhere", journal_);
  expect_refused("symbolic link");
  fs::remove(journal_);
  ASSERT_EQ(::mkfifo(journal_.c_str(), 0600), 0);
  expect_refused("not a regular file");
  fs::remove(journal_);
  fs::create_directory(journal_);
  expect_refused("not a regular file");
  fs::remove(journal_);
  fs::create_hard_link(elsewhere, journal_);
  expect_refused("other names");
  fs::remove(elsewhere);
  expect_obeyed();
}

TEST_F(UndoJournalTest, IsNotOneThatOthersMayWrite) {
  ASSERT_EQ(::chmod(name_.c_str(), 0644), 0);
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(::chmod(journal_.c_str(), mode), 0);
    expect_refused("users may write to it who may not write to the file");
  }
  ASSERT_EQ(::chmod(journal_.c_str(), 0644), 0);
  expect_obeyed();
}

// Some file systems give all files the same mode.
TEST_F(UndoJournalTest, MayBeWrittenByThoseWhoMayWriteTheFile) {
  struct Modes {
    mode_t file, journal;
    bool obeyed;
  };
  for (const Modes& modes : {Modes{0777, 0777, true}, {0660, 0660, true}, {0660, 0662, false}, {0602, 0620, false}}) {
    SCOPED_TRACE(modes.journal);
    ASSERT_EQ(::chmod(name_.c_str(), modes.file), 0);
    ASSERT_EQ(::chmod(journal_.c_str(), modes.journal), 0);
    if (!modes.obeyed) {
      expect_refused("users may write to it who may not write to the file");
      continue;
    }
    expect_obeyed();
    begin_change();
  }
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chmod(name_.c_str(), 0660), 0);
  ASSERT_EQ(::chmod(journal_.c_str(), 0660), 0);
  ASSERT_EQ(::chown(journal_.c_str(), static_cast<uid_t>(-1), 34), 0);
  expect_refused("users may write to it who may not write to the file");
}

TEST_F(UndoJournalTest, BelongsToTheUserOrToTheFilesOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  ASSERT_EQ(::chown(journal_.c_str(), 1234, 0), 0);
  expect_refused("belongs to user 1234");
  ASSERT_EQ(::chown(name_.c_str(), 1235, 0), 0);
  expect_refused("belongs to user 1234");
  ASSERT_EQ(::chown(name_.c_str(), 1234, 0), 0);
  expect_obeyed();
  begin_change();
  struct stat status {};
  ASSERT_EQ(::stat(journal_.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 1234U) << "the owner has to be able to recover the file";
}

TEST_F(UndoJournalTest, IsAboutThisFile) {
  forge([](UndoJournalHeaderWire& header) { ++header.file_number; });
  expect_refused("its inode differs");
}

TEST_F(UndoJournalTest, IsNotAboutALaterFileWithTheSameInode) {
  if (!InPlaceFile(name_).identity().has_creation_time()) {
    GTEST_SKIP() << "this file system does not say when files were created";
  }
  forge([](UndoJournalHeaderWire& header) { header.created_ns = (header.created_ns + 1) % 1'000'000'000; });
  expect_refused("created at another time");
  forge([](UndoJournalHeaderWire& header) { --header.created_s; });
  expect_refused("created at another time");
  // Where it was not known then, or is not known now, the bytes alone decide.
  forge([](UndoJournalHeaderWire& header) { header.created_s = header.created_ns = 0; });
  expect_obeyed();
}

TEST_F(UndoJournalTest, MayBeRestoredTogetherWithItsFile) {
  const std::string copy = directory_ / "copy.tensors";
  const auto restore = [&] {
    fs::copy_file(name_, copy, fs::copy_options::overwrite_existing);
    write_whole(undo_journal_file_name(copy), whole_);
    ASSERT_EQ(::chmod(undo_journal_file_name(copy).c_str(), 0600), 0);
  };
  restore();
  EXPECT_THAT(message_of([&] { recover(copy); }), HasSubstr("run tzmark edit --recover --restored; else move it away"));
  fs::create_hard_link(undo_journal_file_name(copy), directory_ / "backup");
  EXPECT_THAT(message_of([&] { recover(copy); }), HasSubstr("run tzmark edit --recover --restored; else move it away"));
  EXPECT_EQ(recover(copy, {.restored = true}), Recovery::kUndone);
  EXPECT_EQ(read_whole(copy), old_bytes_);
  EXPECT_FALSE(has_undo_journal(copy));
  // All else is asked as ever.
  restore();
  ASSERT_EQ(::chmod(undo_journal_file_name(copy).c_str(), 0622), 0);
  EXPECT_THAT(message_of([&] { recover(copy, {.restored = true}); }), HasSubstr("is not trusted"));
  restore();
  Bytes other = old_bytes_;
  std::fill(other.begin() + 100'000, other.begin() + 110'000, std::byte{9});
  write_whole(copy, other);
  EXPECT_THAT(message_of([&] { recover(copy, {.restored = true}); }), HasSubstr("other bytes"));
  other.resize(other.size() - 1);
  write_whole(copy, other);
  EXPECT_THAT(message_of([&] { recover(copy, {.restored = true}); }), HasSubstr("another size"));
  EXPECT_EQ(read_whole(copy), other);
}

TEST_F(UndoJournalTest, IsNoFileOfAnotherProgram) {
  for (const std::string_view content : {"", "x", "hello world", "a longer file than the beginning of a journal"}) {
    SCOPED_TRACE(content);
    const auto foreign = std::as_bytes(std::span(content));
    write_whole(journal_, foreign);
    expect_refused("file.tensors.tzmark-intent: the undo journal is damaged, or not from tzmark");
    EXPECT_TRUE(std::ranges::equal(read_whole(journal_), foreign));
  }
}

// The size of a journal may be on disk before its bytes are.
TEST_F(UndoJournalTest, ThatDidNotReachTheDiskSaysWhatToDo) {
  for (const std::size_t from : {std::size_t{0}, sizeof(UndoJournalHeaderWire), whole_.size() - 32}) {
    Bytes lost = whole_;
    std::fill(lost.begin() + static_cast<std::ptrdiff_t>(from), lost.end(), std::byte{0});
    write_whole(journal_, lost);
    expect_refused("if the machine lost power before the journal was on disk, the file was not touched: move it away");
  }
}

// cp over the name writes into the same inode.
TEST_F(UndoJournalTest, IsNotAboutOtherContentInTheSameInode) {
  Bytes other = old_bytes_;
  other[100'000] ^= std::byte{1};
  std::fill(other.begin() + 100'000, other.begin() + 110'000, std::byte{9});
  write_whole(name_, other);
  expect_refused("other bytes");
  for (const std::size_t size : {old_bytes_.size() - 1, old_bytes_.size() + 1'001, 10 * old_bytes_.size(), 0UL}) {
    other = old_bytes_;
    other.resize(size);
    write_whole(name_, other);
    expect_refused("another size");
  }
  // What the change may have overwritten is not looked at.
  other = old_bytes_;
  std::fill_n(other.begin() + 4'000, 200, std::byte{8});
  other.resize(old_bytes_.size() + 1'000);
  write_whole(name_, other);
  expect_obeyed();
}

TEST_F(UndoJournalTest, SaysNothingThatIsNotInIt) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  for (const std::uint64_t count :
       {kMost, kMost / 16, std::uint64_t{1} << 32U, std::uint64_t{17}, std::uint64_t{5}, std::uint64_t{1}}) {
    SCOPED_TRACE(count);
    forge([&](UndoJournalHeaderWire& header) { header.range_count = count; });
    expect_refused("damaged");
  }
  for (const std::uint64_t length : {std::uint64_t{1} << 62U, kMost, kMost - 15, std::uint64_t{100'000}}) {
    SCOPED_TRACE(length);
    forge([](UndoJournalHeaderWire&) {}, length);
    expect_refused("damaged");
  }
  const std::function<void(UndoJournalHeaderWire&)> odd[] = {
      [](UndoJournalHeaderWire& header) { header.kind = 3; },
      [](UndoJournalHeaderWire& header) { header.kind = 2; },
      [](UndoJournalHeaderWire& header) { header.insert_bytes = 1; },
      [](UndoJournalHeaderWire& header) { header.insert_at = 0; },
      [](UndoJournalHeaderWire& header) { header.file_bytes_max = 5; },
      [](UndoJournalHeaderWire& header) { header.file_bytes = 50; },
      [](UndoJournalHeaderWire& header) { header.file_bytes = kMost; },
      [](UndoJournalHeaderWire& header) { header.journal_bytes = 0; },
      [](UndoJournalHeaderWire& header) { --header.journal_bytes; },
  };
  for (std::size_t i = 0; i < std::size(odd); ++i) {
    SCOPED_TRACE(i);
    forge(odd[i]);
    expect_refused("damaged");
  }
}

// Version 1 knew its file by the number alone.
TEST_F(UndoJournalTest, HasAVersionThatIsObeyed) {
  Bytes old(60, std::byte{0});
  std::ranges::copy(std::as_bytes(std::span(kUndoJournalMagic)), old.begin());
  old[8] = std::byte{1};
  old.resize(60 + 32);
  for (const std::size_t size : {old.size(), std::size_t{60}, std::size_t{12}}) {
    write_whole(journal_, std::span(old).first(size));
    expect_refused("version 1,");
  }
  forge([](UndoJournalHeaderWire& header) { header.version = 3; });
  expect_refused("version 3,");
}

TEST_F(UndoJournalTest, WhoseFileIsGoneSaysWhatToDo) {
  fs::rename(name_, directory_ / "moved");
  const test::Content content = test::three_tensors();
  const auto write = [&] { write_file(name_, content.table, content.source(), {}); };
  const std::function<void()> calls[] = {write, [&] { recover(name_); }, [&] { append(one({"y"})); }};
  for (const auto& call : calls) EXPECT_THAT(message_of(call), HasSubstr("delete it, or put the file back"));
  fs::rename(directory_ / "moved", name_);
  EXPECT_THAT(message_of(write), HasSubstr("run tzmark edit --recover"));
  expect_obeyed();
  write();
}

// Another program replaces the file by its name, and asks for no lock.
class ReplacedDuringAnEditTest : public EditTest {
 protected:
  // Replaces the file when its data is asked for.
  class ReplacingSource : public TensorSource {
   public:
    ReplacingSource(const TensorSource& source, std::function<void()> replace)
        : source_(source), replace_(std::move(replace)) {}
    std::unique_ptr<TensorStream> open(std::size_t tensor) const override {
      replace_();
      return source_.open(tensor);
    }
    std::vector<FileVersion> files() const override { return source_.files(); }

   private:
    const TensorSource& source_;
    const std::function<void()> replace_;
  };

  // Makes the file anew from itself; something else happens while it is read.
  void replace_by_copy(const std::function<void()>& meanwhile, std::chrono::milliseconds elapsed_max = 200ms) {
    const Reader reader = Reader::open(name_);
    std::once_flag once;
    const ReplacingSource source(reader, [&] { std::call_once(once, meanwhile); });
    WriteOptions options;
    options.layout = Layout::kV5Segments;
    options.names_wait = {elapsed_max, [this](const std::string& line) { told_.push_back(line); }};
    write_file(name_, writable_table(reader), source, options);
  }

  std::vector<std::string> told_;
};

// What is made of a file replaces it only if that would undo no change.
TEST_F(ReplacedDuringAnEditTest, IsNotReplacedByWhatItWas) {
  put(test::three_tensors());
  replace_by_copy([] {});
  EXPECT_EQ(error_of([&] { replace_by_copy([&] { append(one({"y"})); }); }), ErrorCode::kFileChanged);
  EXPECT_TRUE(reader().find(Path{"y"}));
  {
    std::optional<InPlaceFile> locked;
    EXPECT_EQ(error_of([&] { replace_by_copy([&] { locked.emplace(name_); }); }), ErrorCode::kFileLocked);
  }
  replace_by_copy([] {});
  EXPECT_TRUE(reader().find(Path{"y"}));
  EXPECT_EQ(error_of([&] { replace_by_copy([&] { fs::remove(name_); }); }), ErrorCode::kFileChanged);
  EXPECT_FALSE(fs::exists(name_));
}

// Anyone who may read the file can lock it.
class LockedByAReaderTest : public ReplacedDuringAnEditTest {
 protected:
  void SetUp() override {
    put(test::three_tensors());
    reader_ = Descriptor(::open(name_.c_str(), O_RDONLY | O_CLOEXEC));
  }
  void lock(int operation) { ASSERT_EQ(::flock(reader_.get(), operation), 0); }

  Descriptor reader_;
};

TEST_F(LockedByAReaderTest, IsReplacedWhileTheLockIsShared) {
  replace_by_copy([&] { lock(LOCK_SH); });
  EXPECT_THAT(told_, IsEmpty());
  reader().verify();
}

TEST_F(LockedByAReaderTest, IsReplacedWhenTheLockEnds) {
  lock(LOCK_EX);
  std::thread end;
  replace_by_copy(
      [&] {
        end = std::thread([&] {
          std::this_thread::sleep_for(300ms);
          reader_ = Descriptor();
        });
      },
      60s);
  end.join();
  reader().verify();
}

TEST_F(LockedByAReaderTest, KeepsWhatWasWrittenWhenItDoesNotEnd) {
  lock(LOCK_EX);
  std::string message;
  try {
    replace_by_copy([] {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFileLocked);
    message = error.message();
  }
  EXPECT_THAT(told_, ElementsAre(HasSubstr("waiting for another process that has locked ")));
  std::vector<std::string> kept = directory_.entries();
  std::erase(kept, fs::path(name_).filename());
  ASSERT_THAT(kept, ElementsAre(HasSubstr(".tmp-")));
  EXPECT_THAT(message, HasSubstr("stays as " + kept.front() + ": rename it to "));
  Reader::open(directory_ / kept.front()).verify();
}

TEST_F(ReplacedDuringAnEditTest, SaysThatTheResultIsLost) {
  put(test::three_tensors());
  const Bytes other = one({"other"}).write();
  write_whole(directory_ / "other", other);
  const Content content = one({"x"}, 1'000);
  const auto memory = content.source();
  const ReplacingSource source(memory, [&] { fs::rename(directory_ / "other", name_); });
  EXPECT_EQ(error_of([&] { append_tensors(name_, content.table, source); }), ErrorCode::kFileLocked);
  EXPECT_EQ(bytes(), other);
  EXPECT_FALSE(has_undo_journal(name_)) << "nothing can be undone by it any more";
  reader().verify();
}

// Files that grow by being copied.
using GrowingTest = EditTest;

TEST_F(GrowingTest, RemovesNothingThatItHasNotMade) {
  const Bytes unaligned = read_whole(test::corpus_directory() + "valid/segments-unaligned.tensors");
  write_whole(name_, unaligned);
  const Bytes content(100, std::byte{1});
  const std::string others[] = {name_ + ".tzmark-grow",
                                name_ + ".tzmark-grow-0123456789abcdef",
                                name_ + ".tzmark-intent.tmp-01234567",
                                name_ + ".tzmark-intent.tmp-0123456",
                                name_ + ".tzmark-grow-0123456789abcde",
                                name_ + ".tzmark-grow-0123456789ABCDEF",
                                directory_ / "other.tzmark-grow-0123456789abcdef"};
  for (const std::string& other : others) write_whole(other, content);
  const auto before = directory_.entries();
  recover(name_);
  EXPECT_GT(append(one({test::kLongName}, 20'000)).copied_bytes, 0U);
  EXPECT_EQ(directory_.entries(), before);
  for (const std::string& other : others) EXPECT_EQ(read_whole(other), content);
  EXPECT_THAT(unfinished_files(name_), ::testing::ElementsAre(others[1], others[2]));
  fs::create_symlink(name_, directory_ / "link");
  EXPECT_THAT(unfinished_files(directory_ / "link"), ::testing::ElementsAre(others[1], others[2]));
  EXPECT_THAT(unfinished_files(directory_ / "none/file"), ::testing::IsEmpty());
}

TEST_F(GrowingTest, MindsNoDirectory) {
  write_whole(name_, read_whole(test::corpus_directory() + "valid/segments-unaligned.tensors"));
  fs::create_directory(name_ + ".tzmark-grow");
  EXPECT_EQ(recover(name_), Recovery::kNothing);
  EXPECT_GT(append(one({test::kLongName}, 20'000)).copied_bytes, 0U);
}

TEST_F(GrowingTest, HasANameOfAnyLengthThatAJournalHas) {
  const std::string name = directory_ / std::string(NAME_MAX - std::string_view(".tzmark-intent").size(), 'n');
  write_whole(name, read_whole(test::corpus_directory() + "valid/segments-unaligned.tensors"));
  const Content content = one({test::kLongName}, 20'000);
  EXPECT_GT(append_tensors(name, content.table, content.source()).copied_bytes, 0U);
  Reader::open(name).verify();
}

// What has the name of a copy may be a link to a file of somebody else.
TEST_F(GrowingTest, GrowsThroughNoLink) {
  write_whole(name_, read_whole(test::corpus_directory() + "valid/segments-unaligned.tensors"));
  const Bytes content(100, std::byte{1});
  write_whole(directory_ / "victim", content);
  ASSERT_EQ(::chmod((directory_ / "victim").c_str(), 0600), 0);
  fs::create_symlink("victim", name_ + ".tzmark-grow");
  EXPECT_GT(append(one({test::kLongName}, 20'000)).copied_bytes, 0U);
  EXPECT_EQ(read_whole(directory_ / "victim"), content);
  EXPECT_FALSE(fs::is_symlink(name_));
  reader().verify();
}

}  // namespace
}  // namespace tzmark
