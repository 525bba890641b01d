// Recovery where the file is not what the intent expects: it has to refuse, and to leave everything as it is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "codec/in_place_edit.h"
#include "codec/test_files.h"
#include "io/test_room.h"

namespace tzmark {
namespace {

using test::error_of;
namespace fs = std::filesystem;

class RefusedRecoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteOptions options;
    options.layout = Layout::kV5Segments;
    const test::Content content = test::three_tensors();
    for (const std::string& name : {name_, other_}) write_file(name, content.table, content.source(), options);
    before_ = bytes_of(name_);
  }

  static std::vector<std::byte> bytes_of(const std::string& name) {
    const auto file = open_file(name, OpenMode::kRead);
    std::vector<std::byte> bytes(file->size());
    file->read_at(0, std::span(bytes));
    return bytes;
  }

  // Room of 4096 bytes is about to be made in front of the data.
  void begin_insert() {
    InPlaceFile locked(name_);
    const auto file = open_file(name_, OpenMode::kModify);
    Segments after = read_index(*file).segments;
    const std::uint64_t at = after.headers_end;
    after.headers_end += kRoomBytes;
    after.data_begin += kRoomBytes;
    write_insert_intent(name_, locked, *file, at, kRoomBytes, kFileHeaderBytes, encode_layout_section(after));
  }

  void expect_refused() {
    const std::vector<std::byte> found = bytes_of(name_);
    EXPECT_EQ(error_of([&] { recover(name_); }), ErrorCode::kEditInterrupted);
    EXPECT_EQ(bytes_of(name_), found);
    EXPECT_TRUE(has_intent(name_));
    EXPECT_EQ(error_of([&] { Reader::open(name_); }), ErrorCode::kEditInterrupted);
  }

  static constexpr std::uint64_t kRoomBytes = 4096;
  test::TestDirectory directory_;
  const std::string name_ = directory_ / "file.tensors", other_ = directory_ / "other.tensors";
  std::vector<std::byte> before_;
};

// A file system that logs the new size before it moves anything leaves this when the power goes.
TEST_F(RefusedRecoveryTest, GrownFileWhoseDataWasNotMoved) {
  begin_insert();
  fs::resize_file(name_, before_.size() + kRoomBytes);
  expect_refused();
}

TEST_F(RefusedRecoveryTest, AnotherFileInItsPlace) {
  begin_insert();
  fs::rename(other_, name_);
  expect_refused();
  fs::remove(intent_file_name(name_));
  Reader::open(name_).verify();
}

TEST_F(RefusedRecoveryTest, NobodyReplacesAFileThatIsToBeRecovered) {
  begin_insert();
  const test::Content content = test::three_tensors();
  EXPECT_EQ(error_of([&] { write_file(name_, content.table, content.source(), {}); }), ErrorCode::kEditInterrupted);
  EXPECT_EQ(bytes_of(name_), before_);
}

TEST_F(RefusedRecoveryTest, FilesWithTwoNamesAreNotChanged) {
  fs::create_hard_link(name_, directory_ / "second");
  EXPECT_EQ(error_of([&] { edit_tensors(name_, {{.tensor = {"b"}, .drop = true}}); }), ErrorCode::kUsage);
  EXPECT_EQ(bytes_of(name_), before_);
}

// Segments that end anywhere grow to where segments end.
TEST_F(RefusedRecoveryTest, GrowthEndsAtMultiplesOfTheBlock) {
  {
    InPlaceEdit edit(name_, "auto");
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
