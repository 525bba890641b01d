// Tests of the splitting of an adapter's command.
#include "runner/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

using ::testing::ElementsAre;

TEST(SplitCommand, SplitsAtBlanks) {
  EXPECT_THAT(split_command("  node \t reader.js  -v "), ElementsAre("node", "reader.js", "-v"));
}

TEST(SplitCommand, KeepsQuotedBlanksAndEmptyWords) {
  EXPECT_THAT(split_command(R"(run 'a b' "c  d" e\ f '' g'h 'i)"),
              ElementsAre("run", "a b", "c  d", "e f", "", "gh i"));
}

TEST(SplitCommand, SingleQuotesKeepEverything) {
  EXPECT_THAT(split_command(R"(run '$HOME \ "x" `ls` | ;')"), ElementsAre("run", R"($HOME \ "x" `ls` | ;)"));
}

TEST(SplitCommand, DoubleQuotesKeepEscapedCharacters) {
  EXPECT_THAT(split_command(R"(run "a\"b" "\$HOME" "c\d")"), ElementsAre("run", "a\"b", "$HOME", "c\\d"));
}

TEST(SplitCommand, ExpandsVariables) {
  ::setenv("TZMARK_SPLIT_TEST", "two words", 1);
  EXPECT_THAT(split_command("run $TZMARK_SPLIT_TEST \"${TZMARK_SPLIT_TEST}\""),
              ElementsAre("run", "two", "words", "two words"));
  ::unsetenv("TZMARK_SPLIT_TEST");
  EXPECT_THROW(split_command("run $TZMARK_SPLIT_TEST"), UsageError);
}

TEST(SplitCommand, RefusesWhatOnlyAShellCanDo) {
  for (const char* command : {"a | b", "a; b", "a & b", "a > b", "a < b", "(a)", "a $(b)", "a `b`", "a\nb"}) {
    EXPECT_THROW(split_command(command), UsageError) << command;
  }
}

TEST(SplitCommand, RefusesUnclosedQuotesAndEmptyCommands) {
  for (const char* command : {"a 'b", "a \"b", "", "  \t"}) EXPECT_THROW(split_command(command), UsageError) << command;
  EXPECT_THROW(split_command(std::string("a\0b", 3)), UsageError);
}

TEST(JoinCommand, SplitsIntoTheSameWords) {
  const std::vector<std::string> words = {"node", "a b.js", "", "it's", "$HOME", "~", "*", "a\"b", "--x=1"};
  EXPECT_EQ(split_command(join_command(words)), words);
  EXPECT_EQ(join_command({"node", "my-adapter.js", "--x=1"}), "node my-adapter.js --x=1");
}

}  // namespace
}  // namespace tzmark::conformance
