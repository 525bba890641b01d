// What an adapter gets in each input mode, asked for one file at a time.
#include "runner/stage.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "runner/staged_file.h"
#include "testing/test_corpus.h"
#include "testing/test_environment.h"

namespace tzmark::conformance {
namespace {

using ::testing::HasSubstr;

TEST(Stage, SeesAChangedFileInEachInputMode) {
  const std::vector<std::string> changing = {
      python_program(), "-Ic",
      "import os, sys\n"
      "if sys.argv[1] == 'capabilities':\n"
      "  print('{\"protocol\": 1, \"name\": \"n\", \"version\": \"1\", \"commands\": [\"verify\"],'\n"
      "        '\"reads\": {\"layouts\": [\"v1\"], \"shapes\": [\"offset\"]}}')\n"
      "else:\n"
      "  with open(sys.argv[2], 'r+b') as file: file.seek(-1, 2); file.write(b'!')\n"
      "  print('{\"verified\": true}')\n"};
  const Adapter adapter(changing, kNotCancelled);
  const InputModeOptions input;
  Stage stage(input);
  const std::string text = "content";
  const auto content = std::as_bytes(std::span(text));
  const Limits limits = limits_for_file(content.size());
  for (const InputMode mode : {InputMode::kFile, InputMode::kOffset}) {
    const StagedFile file(content, ".tensors");
    const Question question{Command::kVerify, file.path(), {}, file.directory(), {}, {}};
    EXPECT_TRUE(stage.ask(mode, question, content, adapter, limits).changed_file) << name_of(mode);
    EXPECT_EQ(holds(file.path(), content), mode == InputMode::kOffset);
  }
}

// The same URL for each file of a name, as files have the same path; the file itself is elsewhere.
TEST(Stage, ServesAFileByItsUrl) {
  const std::vector<std::string> fetching = {
      python_program(), "-Ic",
      "import json, sys, urllib.request\n"
      "if sys.argv[1] == 'capabilities':\n"
      "  print('{\"protocol\": 1, \"name\": \"n\", \"version\": \"1\", \"commands\": [\"decode\"],'\n"
      "        '\"reads\": {\"layouts\": [\"v1\"], \"shapes\": [\"http\"]}}')\n"
      "else:\n"
      "  with urllib.request.urlopen(sys.argv[2]) as answer: text = answer.read().decode()\n"
      "  print(json.dumps({'url': sys.argv[2], 'text': text}))\n"};
  const Adapter adapter(fetching, kNotCancelled);
  const InputModeOptions input;
  Stage stage(input);
  Stage other_stage(input);
  std::set<std::string> urls;
  for (Stage* asked : {&stage, &stage, &other_stage}) {
    const std::string text = fmt::format("content {}", urls.size());
    const auto content = std::as_bytes(std::span(text));
    const StagedFile file(content, ".tensors");
    const Question question{Command::kDecode, file.path(), {}, file.directory(), {}, {}};
    const Step step = asked->ask(InputMode::kHttp, question, content, adapter, limits_for_file(content.size()));
    ASSERT_EQ(step.answer.kind, AnswerKind::kAccepted) << step.process.stderr_tail;
    EXPECT_EQ(step.answer.document["text"], text);
    EXPECT_THAT(step.served, HasSubstr("requests: 1, failed: 0"));
    EXPECT_EQ(step.untried, "");
    EXPECT_FALSE(step.changed_file);
    const auto url = step.answer.document["url"].get<std::string>();
    EXPECT_TRUE(url.starts_with("http://127.0.0.1:") && url.ends_with("/" + file.path().filename().string())) << url;
    urls.insert(url);
  }
  EXPECT_EQ(urls.size(), 2u);
}

// Of the file of a question, and of what the question leaves there.

}  // namespace
}  // namespace tzmark::conformance
