// Tests of the input modes: their names, who is asked in them, where parts of files lie, and how long short reads are.
#include "runner/input_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runner/errors.h"
#include "runner/odd_sizes.h"
#include "runner/stage.h"

namespace tzmark::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(InputModes, AreNamed) {
  EXPECT_THAT(parse_input_modes("file"), ElementsAre(InputMode::kFile));
  EXPECT_THAT(parse_input_modes("offset,short-reads,offset"), ElementsAre(InputMode::kShortReads, InputMode::kOffset));
  for (const char* names : {"", ",", "fifo", "pipe, offset", "file,Pipe"}) {
    EXPECT_THROW(parse_input_modes(names), UsageError) << names;
  }
  for (std::size_t i = 0; i < kInputModeCount; ++i) {
    const auto mode = static_cast<InputMode>(i);
    EXPECT_THAT(parse_input_modes(std::string(name_of(mode))), ElementsAre(mode));
  }
  EXPECT_EQ(input_mode_names(), "file, pipe, short-reads, read-only, offset, http, http-faults");
  EXPECT_THAT(claimed_input_modes(), UnorderedElementsAre("pipe", "offset", "http", "http-faults"));
  EXPECT_EQ(label(Command::kVerify, InputMode::kFile), "verify");
  EXPECT_EQ(label(Command::kVerify, InputMode::kReadOnly), "verify (read-only)");
}

// Any reader of files has to do with what the system does to reads and mounts; the others have to say so.
TEST(InputModes, AreForThoseWhoTakeThem) {
  Profile profile;
  profile.commands = {"decode", "verify"};
  for (const InputMode mode : {InputMode::kFile, InputMode::kShortReads, InputMode::kReadOnly}) {
    EXPECT_THAT(commands_in(mode, profile), ElementsAre(Command::kDecode, Command::kVerify)) << name_of(mode);
  }
  EXPECT_THAT(commands_in(InputMode::kPipe, profile), IsEmpty());
  EXPECT_THAT(commands_in(InputMode::kOffset, profile), IsEmpty());
  profile.reads.input_modes = {"offset", "http"};
  EXPECT_THAT(commands_in(InputMode::kOffset, profile), ElementsAre(Command::kDecode, Command::kVerify));
  EXPECT_THAT(commands_in(InputMode::kHttp, profile), ElementsAre(Command::kDecode, Command::kVerify));
  EXPECT_THAT(commands_in(InputMode::kHttpFaults, profile), IsEmpty());
  EXPECT_EQ(absence(InputMode::kHttpFaults), "its profile does not have the input mode http-faults");
  profile.commands = {"stream"};
  for (const InputMode mode : {InputMode::kFile, InputMode::kPipe, InputMode::kShortReads}) {
    EXPECT_THAT(commands_in(mode, profile), ElementsAre(Command::kStream)) << name_of(mode);
  }
  for (const InputMode mode : {InputMode::kReadOnly, InputMode::kOffset, InputMode::kHttp}) {
    EXPECT_THAT(commands_in(mode, profile), IsEmpty()) << name_of(mode);
  }
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
    EXPECT_GT(room.after_bytes, 4096u);
    EXPECT_EQ(room.before_bytes, room_around(20, file_bytes).before_bytes);
  }
  EXPECT_NE(room_around(20, 200).before_bytes, room_around(21, 200).before_bytes);
}

}  // namespace
}  // namespace tzmark::conformance
