// Tests of the shapes: their names, who is asked in them, where parts of files lie, and how long short reads are.
#include "shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "errors.h"
#include "odd_sizes.h"
#include "stage.h"

namespace tzmark::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Shapes, AreNamed) {
  EXPECT_THAT(parse_shapes("file"), ElementsAre(Shape::kFile));
  EXPECT_THAT(parse_shapes("offset,short-reads,offset"), ElementsAre(Shape::kShortReads, Shape::kOffset));
  for (const char* names : {"", ",", "fifo", "pipe, offset", "file,Pipe"}) {
    EXPECT_THROW(parse_shapes(names), UsageError) << names;
  }
  for (std::size_t i = 0; i < kShapeCount; ++i) {
    const auto shape = static_cast<Shape>(i);
    EXPECT_THAT(parse_shapes(std::string(name_of(shape))), ElementsAre(shape));
  }
  EXPECT_EQ(label(Command::kVerify, Shape::kFile), "verify");
  EXPECT_EQ(label(Command::kVerify, Shape::kReadOnly), "verify (read-only)");
}

// Any reader of files has to do with what the system does to reads and mounts; the others have to say so.
TEST(Shapes, AreForThoseWhoTakeThem) {
  Profile profile;
  profile.commands = {"decode", "verify"};
  for (const Shape shape : {Shape::kFile, Shape::kShortReads, Shape::kReadOnly}) {
    EXPECT_THAT(commands_in(shape, profile), ElementsAre(Command::kDecode, Command::kVerify)) << name_of(shape);
  }
  EXPECT_THAT(commands_in(Shape::kPipe, profile), IsEmpty());
  EXPECT_THAT(commands_in(Shape::kOffset, profile), IsEmpty());
  profile.reads.shapes = {"offset"};
  EXPECT_THAT(commands_in(Shape::kOffset, profile), ElementsAre(Command::kDecode, Command::kVerify));
  profile.commands = {"stream"};
  for (const Shape shape : {Shape::kFile, Shape::kPipe, Shape::kShortReads}) {
    EXPECT_THAT(commands_in(shape, profile), ElementsAre(Command::kStream)) << name_of(shape);
  }
  EXPECT_THAT(commands_in(Shape::kReadOnly, profile), IsEmpty());
}

TEST(OddSizes, AreOddAndShortAndRepeated) {
  for (const std::uint64_t file_bytes : {0u, 1u, 2u, 3u, 100u, 101u, 5000u, 5000000u}) {
    std::set<std::uint64_t> sizes;
    for (std::uint64_t offset = 0; offset < 2000; ++offset) {
      const std::uint64_t size = odd_piece_bytes(20, offset, file_bytes);
      EXPECT_EQ(size % 2, 1u);
      EXPECT_LE(size, std::max<std::uint64_t>(1, file_bytes / 2)) << file_bytes;
      EXPECT_EQ(size, odd_piece_bytes(20, offset, file_bytes));
      sizes.insert(size);
    }
    EXPECT_GT(sizes.size(), file_bytes < 100 ? 0u : 20u) << file_bytes;
  }
  EXPECT_NE(odd_piece_bytes(20, 7, 1 << 20), odd_piece_bytes(21, 7, 1 << 20));
}

TEST(Room, IsOddAndHangsOnTheSeed) {
  for (const std::uint64_t file_bytes : {0u, 1u, 200u, 201u, 1000000u}) {
    const Room room = room_around(20, file_bytes);
    EXPECT_EQ(room.before_bytes % 2, 1u);
    EXPECT_GT(room.before_bytes, 4096u);
    EXPECT_GT(room.behind_bytes, 4096u);
    EXPECT_EQ(room.before_bytes, room_around(20, file_bytes).before_bytes);
  }
  EXPECT_NE(room_around(20, 200).before_bytes, room_around(21, 200).before_bytes);
}

}  // namespace
}  // namespace tzmark::conformance
