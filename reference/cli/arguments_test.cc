// Invalid command lines: empty values and unknown words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "testing/files/command.h"
#include "testing/files/tensors_files.h"

namespace tzmark {
namespace {

using test::CliTest;
using test::Result;
using test::slurp;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class ArgumentsTest : public CliTest {
 protected:
  Result run_with(Words words, const Words& more) const {
    words.insert(words.end(), more.begin(), more.end());
    return run(std::move(words));
  }

  const std::string plain_ = write("plain.tensors", test::three_tensors().write());
};

// A shell expands an unset variable to "". Without a key, convert would write plaintext.
TEST_F(ArgumentsTest, RejectsEmptyValues) {
  const Words convert = {"convert", plain_, path("out")};
  for (const char* option :
       {"--encrypt-key-file", "--encrypt-passphrase-file", "--encrypt-key-hex", "--encrypt-passphrase", "--key-file",
        "--passphrase-file", "--key-hex", "--passphrase", "--data-file", "--io", "--profile", "--layout",
        "--safetensors-profile", "--chunk-bytes", "--threads"}) {
    for (const Words& empty : {Words{option, ""}, Words{std::string(option) + "="}}) {
      const Result result = run_with(convert, empty);
      EXPECT_EQ(result.status, 2) << option;
      EXPECT_EQ(result.err, std::string("tzmark: error TZE-USE-001: ") + option + ": the value is empty\n");
      EXPECT_FALSE(fs::exists(path("out"))) << option;
    }
    // CLI11 would take the next word as the value.
    EXPECT_EQ(run({"convert", std::string(option) + "=", plain_, path("out")}).status, 2) << option;
    EXPECT_FALSE(fs::exists(path("out"))) << option;
  }
  const std::vector<Words> others = {{"verify", ""},
                                     {"convert", plain_, ""},
                                     {"extract", plain_, "b", "-o", ""},
                                     {"edit", "", "--drop", "b"},
                                     {"append", plain_, "", "--show-growth"},
                                     {"append", plain_, plain_, "--encrypt-key-file", ""},
                                     {"checkpoint", "list", ""},
                                     {"checkpoint", "simulate", path("run"), "--json", ""}};
  for (const Words& words : others) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 2) << words[0];
    EXPECT_THAT(result.err, HasSubstr("the value is empty")) << words[0];
  }
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(ArgumentsTest, AcceptsEmptyTensorNames) {
  const std::string segments = path("segments.tensors");
  ASSERT_EQ(run({"convert", plain_, segments, "--layout", "v5-segments"}).status, 0);
  const std::vector<Words> lines = {
      {"extract", plain_, ""}, {"edit", segments, "--drop", ""}, {"edit", segments, "--kind", "", "buffer"}};
  for (const Words& words : lines) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 2) << words[0];
    EXPECT_THAT(result.err, HasSubstr("TZE-USE-002: there is no tensor ''")) << words[0];
  }
  const std::string raw = write("raw", std::string(4, 'x'));
  EXPECT_EQ(run({"append", segments, "--raw", "scalar", "float32", "", raw}).status, 0);
  EXPECT_EQ(run({"extract", segments, "scalar"}).out, "xxxx");
}

TEST_F(ArgumentsTest, RejectsEmptySecretFiles) {
  const std::string empty = write("empty", std::string());
  const std::string newline = write("newline", std::string("\n"));
  for (const std::string& secret : {empty, newline}) {
    for (const char* option : {"--encrypt-passphrase-file", "--encrypt-key-file"}) {
      const Result result =
          run({"convert", plain_, path("out"), option, secret, "--opslimit", "1", "--memlimit", "8KiB"});
      EXPECT_EQ(result.status, 2) << option;
      EXPECT_THAT(result.err, HasSubstr(secret)) << option;
      EXPECT_FALSE(fs::exists(path("out")));
    }
  }
}

TEST_F(ArgumentsTest, NamesUnknownWords) {
  const std::vector<std::pair<Words, std::string>> lines = {
      {{"verfy", plain_}, "unknown command 'verfy'; did you mean 'verify'?"},
      {{"checkpoint", "lst"}, "unknown command 'lst'; did you mean 'list'?"},
      {{"conformm"}, "unknown command 'conformm'; did you mean 'conform'?"},
      {{"frobnicate"}, "unknown command 'frobnicate'"},
      {{"fro\x1b[2Jb"}, "unknown command 'fro\\x1b[2Jb'"},
      {{"verify", plain_, "--key-fil", "x"}, "unknown option '--key-fil'; did you mean '--key-file'?"},
      {{"verify", "--sturcture-only"}, "unknown option '--sturcture-only'; did you mean '--structure-only'?"},
      {{"verify", plain_, "--xyzzy=1"}, "unknown option '--xyzzy'"},
      {{"inspect", plain_, "other"}, "one argument too many: 'other'"}};
  for (const auto& [words, text] : lines) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 2) << text;
    EXPECT_EQ(result.out, "") << text;
    EXPECT_EQ(result.err, "tzmark: error TZE-USE-001: " + text + "\n");
  }
  // The other words of these are the library's.
  for (const auto& [words, named] : std::vector<std::pair<Words, std::string>>{{{"verify"}, "FILE"}, {{}, "command"}}) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 2) << named;
    EXPECT_EQ(result.out, "") << named;
    EXPECT_THAT(result.err, MatchesRegex("tzmark: error TZE-USE-001: [^\n]*" + named + "[^\n]*\n"));
  }
  EXPECT_EQ(run({"--help"}).err, "");
}

// Names cannot break, hide or reverse a line, nor control the terminal.
TEST_F(ArgumentsTest, EscapesNamesForTerminals) {
  const std::string odd = "a\x1b[31m\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8b\xff\nb";
  const std::string shown = "a\\x1b[31m\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xe2\\x80\\x8b\\xff\\x0ab";
  EXPECT_EQ(run({"verify", path(odd)}).err, "tzmark: " + path(shown) +
                                                ": error TZE-ENV-001: cannot open: No such file "
                                                "or directory\n");
  const std::string file = write(odd, test::three_tensors().write());
  for (const char* command : {"verify", "inspect"}) {
    const Result result = run({command, file});
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.out, HasSubstr(path(shown))) << command;
    EXPECT_EQ(result.out.find(odd), std::string::npos) << command;
  }
  EXPECT_THAT(run({"extract", plain_, odd}).err, HasSubstr("there is no tensor '" + shown + "'"));
  EXPECT_THAT(run({"verify", plain_, "--io", odd}).err, HasSubstr("'" + shown + "'"));
}

}  // namespace
}  // namespace tzmark
