// What is left when a change in place fails or dies, and what recovery makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "codec/in_place_edit.h"
#include "testing/files/corpus.h"
#include "testing/files/edits.h"
#include "tzmark/canonical.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::Content;
using test::EditTest;
using test::error_of;
using test::kLongName;
using test::one;
using test::read_whole;
using test::write_whole;
using ::testing::ElementsAre;
namespace fs = std::filesystem;

using RecoveryTest = EditTest;

// Runs a change with more and more room on the disk. Wherever it fails, the file is what it was when it is recovered.
// Returns how often there was not even room for that at once.
template <typename Put, typename Change>
int with_full_disks(const std::string& name, std::uint64_t step_bytes, Put&& put, Change&& change) {
  put();
  const std::string old_json = canonical_json(Reader::open(name));
  change();
  const std::string new_json = canonical_json(Reader::open(name));
  const std::uint64_t size = read_whole(name).size();
  int interrupted = 0, whole = 0;
  for (std::uint64_t bytes_max = 0; bytes_max < size + 2 * step_bytes; bytes_max += step_bytes) {
    SCOPED_TRACE(bytes_max);
    put();
    std::optional<ErrorCode> error, recovery_error;
    {
      const test::FileSizeLimit limit(bytes_max);
      error = error_of(change);
      if (error) recovery_error = error_of([&] { recover(name); });
    }
    if (!error) {
      EXPECT_EQ(canonical_json(Reader::open(name)), new_json);
      ++whole;
      continue;
    }
    EXPECT_EQ(*error, ErrorCode::kWriteFailed);
    if (recovery_error) {
      // There was not even room for the way back, and the file says so until there is.
      EXPECT_EQ(*recovery_error, ErrorCode::kWriteFailed);
      EXPECT_EQ(error_of([&] { Reader::open(name); }), ErrorCode::kEditInterrupted);
      ++interrupted;
    }
    recover(name);
    const Reader after = Reader::open(name);
    EXPECT_EQ(canonical_json(after), old_json);
    after.verify();
    EXPECT_FALSE(std::filesystem::exists(undo_journal_file_name(name)));
    change();
    EXPECT_EQ(canonical_json(Reader::open(name)), new_json);
  }
  EXPECT_GT(whole, 0);
  return interrupted;
}

TEST_F(RecoveryTest, AppendOnFullDisks) {
  EXPECT_GT(with_full_disks(
                name_, 500, [&] { put(test::three_tensors()); }, [&] { append(one({"x"}, 20'000)); }),
            0);
}

TEST_F(RecoveryTest, GrowingAppendOnFullDisks) {
  with_full_disks(
      name_, 1'000, [&] { put(test::three_tensors()); }, [&] { append(one({kLongName}, 20'000)); });
}

TEST_F(RecoveryTest, CopyingAppendOnFullDisks) {
  const Bytes unaligned = read_whole(test::corpus_directory() + "valid/segments-unaligned.tensors");
  with_full_disks(
      name_, 1'000, [&] { write_whole(name_, unaligned); }, [&] { append(one({kLongName}, 20'000)); });
}

TEST_F(RecoveryTest, EditOnFullDisks) {
  EXPECT_GT(with_full_disks(
                name_, 250, [&] { put(test::three_tensors()); },
                [&] {
                  edit({{.tensor = {"b"}, .new_path = Path{"c"}}, {.tensor = {"a.weight"}, .drop = true}});
                }),
            0);
}

// After a process has died when its journal was there and a part of the file was written.
class InterruptedTest : public EditTest {
 protected:
  void SetUp() override {
    put(test::three_tensors());
    old_bytes_ = bytes();
    die_appending();
    ASSERT_NE(bytes(), old_bytes_);
    whole_journal_ = read_whole(journal_);
  }

  // A process of its own begins to append, and is killed by the write that makes the file too large.
  void die_appending() {
    const Content content = one({"x"}, 20'000);
    const pid_t child = ::fork();
    if (child == 0) {
      const test::FileSizeLimit limit(old_bytes_.size() + 10'000);
      static_cast<void>(std::signal(SIGXFSZ, SIG_DFL));
      append(content);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_EQ(WTERMSIG(status), SIGXFSZ);
  }

  static mode_t mode_of(const std::string& name) {
    struct stat status {};
    EXPECT_EQ(::stat(name.c_str(), &status), 0);
    return status.st_mode & 07777U;
  }

  Bytes old_bytes_, whole_journal_;
};

TEST_F(InterruptedTest, EverybodyButRecoveryRefuses) {
  EXPECT_EQ(error_of([&] { reader(); }), ErrorCode::kEditInterrupted);
  const std::string link = directory_ / "link";
  std::filesystem::create_symlink("file.tensors", link);
  EXPECT_EQ(error_of([&] { Reader::open(link); }), ErrorCode::kEditInterrupted);
  EXPECT_EQ(recover(link), Recovery::kUndone);
  EXPECT_EQ(bytes(), old_bytes_);
  EXPECT_EQ(recover(name_), Recovery::kNothing);
  EXPECT_THAT(directory_.entries(), ElementsAre("file.tensors", "link"));
}

TEST_F(InterruptedTest, ReadersOfTheFileMayReadTheJournalAndOnlyItsOwnerMayWriteIt) {
  // It holds a part of the file, and what it says is done.
  for (const mode_t mode : {0600, 0640, 0666}) {
    recover(name_);
    ASSERT_EQ(::chmod(name_.c_str(), mode), 0);
    die_appending();
    EXPECT_EQ(mode_of(journal_), mode & 0755);
  }
}

TEST_F(InterruptedTest, TheNextChangeRecovers) {
  append(one({"y"}));
  EXPECT_THAT(names(), ElementsAre("a.weight", "b", ::testing::_, "y"));
  reader().verify();
}

TEST_F(InterruptedTest, ADamagedJournalIsRefused) {
  const Bytes before = bytes();
  for (std::size_t at = 0; at < whole_journal_.size(); ++at) {
    Bytes damaged = whole_journal_;
    damaged[at] ^= static_cast<std::byte>(1U << at % 8);
    write_whole(journal_, damaged);
    EXPECT_EQ(error_of([&] { recover(name_); }), ErrorCode::kEditInterrupted) << "byte " << at;
    EXPECT_EQ(error_of([&] { append(one({"y"})); }), ErrorCode::kEditInterrupted) << "byte " << at;
    ASSERT_EQ(bytes(), before) << "byte " << at;
    ASSERT_EQ(read_whole(journal_), damaged) << "byte " << at;
  }
  write_whole(journal_, whole_journal_);
  EXPECT_EQ(recover(name_), Recovery::kUndone);
  EXPECT_EQ(bytes(), old_bytes_);
}

TEST_F(InterruptedTest, AJournalWithMoreBehindItIsRefused) {
  Bytes longer = whole_journal_;
  longer.resize(longer.size() + 1);
  write_whole(journal_, longer);
  EXPECT_EQ(error_of([&] { recover(name_); }), ErrorCode::kEditInterrupted);
}

// Journals get their name when they are whole, so a shorter file of this name is not one of ours.
TEST_F(InterruptedTest, ACutJournalIsRefused) {
  const Bytes before = bytes();
  for (std::size_t length = 0; length < whole_journal_.size(); ++length) {
    const auto cut = std::span(whole_journal_).first(length);
    write_whole(journal_, cut);
    EXPECT_EQ(error_of([&] { reader(); }), ErrorCode::kEditInterrupted) << length << " bytes";
    EXPECT_EQ(error_of([&] { recover(name_); }), ErrorCode::kEditInterrupted) << length << " bytes";
    ASSERT_EQ(bytes(), before) << length << " bytes";
    ASSERT_TRUE(std::ranges::equal(read_whole(journal_), cut)) << length << " bytes";
  }
}

TEST_F(InterruptedTest, OneChangeAtATime) {
  {
    const InPlaceFile locked(name_);
    EXPECT_EQ(error_of([&] { recover(name_); }), ErrorCode::kFileLocked);
    EXPECT_EQ(error_of([&] { append(one({"y"})); }), ErrorCode::kFileLocked);
    EXPECT_EQ(error_of([&] { edit({{.tensor = {"b"}, .drop = true}}); }), ErrorCode::kFileLocked);
    EXPECT_TRUE(std::filesystem::exists(journal_));
  }
  EXPECT_EQ(recover(name_), Recovery::kUndone);
}

TEST_F(RecoveryTest, NothingToRecover) {
  put(test::three_tensors());
  const Bytes before = bytes();
  EXPECT_EQ(recover(name_), Recovery::kNothing);
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(error_of([&] { recover(directory_ / "none"); }), ErrorCode::kOpenFailed);
  EXPECT_THAT(directory_.entries(), ElementsAre("file.tensors"));
}

// Room was made, and the layout section still says where the segments were.
TEST_F(RecoveryTest, FinishesWhereRoomWasMade) {
  put(test::three_tensors());
  const std::string old_json = canonical_json(reader());
  Segments segments = reader().segments();
  const std::uint64_t at = segments.headers_end;
  segments.headers_end += 2 * kSegmentEndUnit;
  segments.data_begin += 2 * kSegmentEndUnit;
  {
    const InPlaceFile locked(name_);
    const auto file = open_file(name_, OpenMode::kRead);
    EXPECT_TRUE(write_insert_journal(locked, *file, at, 2 * kSegmentEndUnit, kFileHeaderBytes,
                                     encode_layout_section(segments)));
  }
  Bytes grown = bytes();
  grown.insert(grown.begin() + static_cast<std::ptrdiff_t>(at), 2 * kSegmentEndUnit, std::byte{0});
  write_whole(name_, grown);
  EXPECT_EQ(error_of([&] { reader(); }), ErrorCode::kEditInterrupted);
  EXPECT_EQ(recover(name_), Recovery::kFinished);
  EXPECT_THAT(directory_.entries(), ElementsAre("file.tensors"));
  EXPECT_EQ(reader().segments(), segments);
  EXPECT_EQ(canonical_json(reader()), old_json);
  reader().verify();
}

TEST_F(RecoveryTest, RoomThatWasNotMade) {
  put(test::three_tensors());
  const Bytes before = bytes();
  const auto section = encode_layout_section(reader().segments());
  const auto intend = [&] {
    const InPlaceFile locked(name_);
    const auto file = open_file(name_, OpenMode::kRead);
    EXPECT_TRUE(write_insert_journal(locked, *file, kSegmentEndUnit, kSegmentEndUnit, kFileHeaderBytes, section));
  };
  intend();
  EXPECT_EQ(recover(name_), Recovery::kUndone);
  EXPECT_EQ(bytes(), before);
  // Recovery refuses a file with neither the old nor the new content.
  intend();
  Bytes other = before;
  other.resize(other.size() + 100);
  write_whole(name_, other);
  EXPECT_EQ(error_of([&] { recover(name_); }), ErrorCode::kEditInterrupted);
  EXPECT_EQ(bytes(), other);
  EXPECT_TRUE(std::filesystem::exists(journal_));
}

TEST_F(RecoveryTest, ACopyThatWasNotFinishedConcernsNobody) {
  put(test::three_tensors());
  const Bytes before = bytes();
  const std::string copy = name_ + ".tzmark-grow-00000000000000ff";
  write_whole(copy, before);
  EXPECT_EQ(canonical_json(reader()), canonical_json(test::open_bytes(before)));
  EXPECT_EQ(recover(name_), Recovery::kNothing);
  EXPECT_THAT(unfinished_files(name_), ElementsAre(copy));
  EXPECT_EQ(bytes(), before);
}

// Files that are not what the journal expects: recovery has to refuse, and to leave everything as it is.
class RefusedRecoveryTest : public EditTest {
 protected:
  void SetUp() override {
    put(test::three_tensors());
    before_ = bytes();
  }

  // Room of 4096 bytes is about to be made in front of the data.
  void begin_insert() {
    InPlaceFile locked(name_);
    const auto file = open_file(name_, OpenMode::kModify);
    Segments after = read_index(*file).segments;
    const std::uint64_t at = after.headers_end;
    after.headers_end += kRoomBytes;
    after.data_begin += kRoomBytes;
    EXPECT_TRUE(write_insert_journal(locked, *file, at, kRoomBytes, kFileHeaderBytes, encode_layout_section(after)));
    at_ = at;
  }

  void expect_refused() {
    const Bytes found = bytes();
    EXPECT_EQ(error_of([&] { recover(name_); }), ErrorCode::kEditInterrupted);
    EXPECT_EQ(bytes(), found);
    EXPECT_TRUE(has_undo_journal(name_));
    EXPECT_EQ(error_of([&] { Reader::open(name_); }), ErrorCode::kEditInterrupted);
  }

  static constexpr std::uint64_t kRoomBytes = 4096;
  Bytes before_;
  std::uint64_t at_ = 0;  // where the room is made
};

// A file system that makes the file larger before it moves anything leaves this when there is no room to move it, or
// when the power goes.
TEST_F(RefusedRecoveryTest, GrownFileWhoseDataWasNotMovedIsCutAgain) {
  const auto expect_undone = [&] {
    begin_insert();
    fs::resize_file(name_, before_.size() + kRoomBytes);
    EXPECT_EQ(recover(name_), Recovery::kUndone);
    EXPECT_EQ(bytes(), before_);
    EXPECT_THAT(directory_.entries(), ElementsAre("file.tensors"));
  };
  expect_undone();
  // Data of one value looks the same wherever it is, and has zeros in front of it only when it was moved.
  put(one({"x"}, 20'000));
  before_ = bytes();
  const auto data = static_cast<std::ptrdiff_t>(reader().segments().data_begin);
  std::fill(before_.begin() + data, before_.begin() + data + 20'000, std::byte{1});
  write_whole(name_, before_);
  expect_undone();
}

TEST_F(RefusedRecoveryTest, GrownFileOfWhichAPartWasMoved) {
  put(one({"x"}, 20'000));
  before_ = bytes();
  begin_insert();
  // From the end on backwards, as file systems do it.
  Bytes grown = before_;
  const auto end = static_cast<std::ptrdiff_t>(before_.size());
  grown.insert(grown.begin() + end - 5'000, kRoomBytes, std::byte{0});
  write_whole(name_, grown);
  expect_refused();
}

TEST_F(RefusedRecoveryTest, GrownFileWithOtherData) {
  put(one({"x"}, 20'000));
  before_ = bytes();
  begin_insert();
  Bytes grown = before_;
  grown.insert(grown.begin() + static_cast<std::ptrdiff_t>(at_), kRoomBytes, std::byte{0});
  grown[grown.size() - 100] ^= std::byte{1};
  write_whole(name_, grown);
  expect_refused();
}

TEST_F(RefusedRecoveryTest, AnotherFileInItsPlace) {
  begin_insert();
  const std::string other = directory_ / "other.tensors";
  write_whole(other, before_);
  fs::rename(other, name_);
  expect_refused();
  fs::remove(undo_journal_file_name(name_));
  Reader::open(name_).verify();
}

TEST_F(RefusedRecoveryTest, NobodyReplacesAFileThatIsToBeRecovered) {
  begin_insert();
  const test::Content content = test::three_tensors();
  EXPECT_EQ(error_of([&] { write_file(name_, content.table, content.source(), {}); }), ErrorCode::kEditInterrupted);
  EXPECT_EQ(bytes(), before_);
}

TEST_F(RefusedRecoveryTest, FilesWithTwoNamesAreNotChanged) {
  fs::create_hard_link(name_, directory_ / "second");
  EXPECT_EQ(error_of([&] { edit_tensors(name_, {{.tensor = {"b"}, .drop = true}}); }), ErrorCode::kUsage);
  EXPECT_EQ(bytes(), before_);
}

// Segments that end anywhere grow to where segments end.
TEST_F(RefusedRecoveryTest, GrowthEndsAtMultiplesOfTheBlock) {
  {
    InPlaceEdit edit(name_, "auto", Durability::kIfPossible);
    for (int i = 0; i < 3; ++i) {
      edit.make_room(InPlaceEdit::Segment::kMetadata, edit.index().segments.metadata_end + 1);
      edit.make_room(InPlaceEdit::Segment::kHeaders, edit.index().segments.headers_end + 5000);
    }
  }
  const Reader reader = Reader::open(name_);
  reader.verify();
  EXPECT_EQ(reader.segments().metadata_end % kSegmentEndUnit, 0U);
  EXPECT_EQ(reader.segments().headers_end % kSegmentEndUnit, 0U);
  EXPECT_GE(reader.segments().headers_end - reader.segments().headers_begin, 8 * 4096U);
}

}  // namespace
}  // namespace tzmark
