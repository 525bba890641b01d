// Tests of the adapter protocol: which outputs are answers, which profiles are accepted.
#include "runner/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Answer answer(Command command, int exit_status, const std::string& stdout_text) {
  ProcessResult process;
  process.end = ProcessEnd::kExited;
  process.exit_status = exit_status;
  process.stdout_text = stdout_text;
  return read_answer(command, process);
}

TEST(Answer, DecodeIsAcceptedWithOneJsonDocument) {
  const Answer accepted = answer(Command::kDecode, 0, "{\n \"data_version\": 1\n}\n");
  EXPECT_EQ(accepted.kind, AnswerKind::kAccepted);
  EXPECT_EQ(accepted.document["data_version"], 1);
  for (const char* text : {"", "done\n", "{} {}", "{\"data_version\": 1", "\"data\"", "[]", "null"}) {
    EXPECT_EQ(answer(Command::kDecode, 0, text).kind, AnswerKind::kNone) << text;
  }
}

TEST(Answer, VerifyIsAcceptedWithItsLastLine) {
  EXPECT_EQ(answer(Command::kVerify, 0, "{\"verified\": true}").kind, AnswerKind::kAccepted);
  EXPECT_EQ(answer(Command::kVerify, 0, "some noise\n{\"verified\":true}\r\n\n").kind, AnswerKind::kAccepted);
  for (const char* text : {"", "{\"verified\": true}\nnoise", "{\"verified\": false}", "{\"verified\": 1}", "true"}) {
    EXPECT_EQ(answer(Command::kVerify, 0, text).kind, AnswerKind::kNone) << text;
  }
}

TEST(Answer, RejectedWithItsLastLine) {
  const Answer full =
      answer(Command::kDecode, 1,
             "noise\n{\"rejected\": {\"rule\": \"TZR-HDR-002\", \"offset\": 0, \"message\": \"bad magic\"}}\n");
  EXPECT_EQ(full.kind, AnswerKind::kRejected);
  EXPECT_EQ(full.rejection.rule, "TZR-HDR-002");
  EXPECT_EQ(full.rejection.offset, 0u);
  EXPECT_EQ(full.rejection.message, "bad magic");

  const Answer bare =
      answer(Command::kVerify, 1, "{\"rejected\": {\"rule\": null, \"offset\": null, \"message\": \"no\"}}");
  EXPECT_EQ(bare.kind, AnswerKind::kRejected);
  EXPECT_FALSE(bare.rejection.rule);
  EXPECT_FALSE(bare.rejection.offset);
}

TEST(Answer, StatusOneWithoutTheLineIsNoAnswer) {
  for (const char* text : {"", "Traceback", "{\"rejected\": {\"message\": \"x\"}}\nTraceback", "{\"rejected\": true}",
                           "{\"rejected\": {}}", "{\"rejected\": {\"message\": 3}}",
                           "{\"rejected\": {\"message\": \"x\", \"offset\": -1}}",
                           "{\"rejected\": {\"message\": \"x\", \"rule\": 7}}", "{\"unsupported\": \"x\"}"}) {
    EXPECT_EQ(answer(Command::kDecode, 1, text).kind, AnswerKind::kNone) << text;
  }
}

TEST(Answer, UnsupportedWithItsLine) {
  const Answer unsupported = answer(Command::kDecode, 2, "{\"unsupported\": \"no Argon2\"}");
  EXPECT_EQ(unsupported.kind, AnswerKind::kUnsupported);
  EXPECT_EQ(unsupported.text, "no Argon2");
  for (const char* text : {"", "usage: adapter", "{\"unsupported\": true}", "{\"rejected\": {\"message\": \"x\"}}"}) {
    EXPECT_EQ(answer(Command::kDecode, 2, text).kind, AnswerKind::kNone) << text;
  }
}

TEST(Answer, OtherStatusesAreNone) {
  for (const int status : {3, 4, 101, 127, 134, 255}) {
    EXPECT_EQ(answer(Command::kDecode, status, "{\"rejected\": {\"message\": \"x\"}}").kind, AnswerKind::kNone);
  }
  EXPECT_THAT(answer(Command::kDecode, 3, "").text, HasSubstr("exit status 3"));
}

TEST(Answer, SaysHowTheProcessEnded) {
  const auto text_of = [](ProcessEnd end) {
    ProcessResult process;
    process.end = end;
    process.signal = SIGSEGV;
    process.rss_peak_bytes = 300 << 20;
    process.elapsed = std::chrono::milliseconds(2500);
    process.elapsed_max = std::chrono::seconds(2);
    process.rss_max_bytes = 70 << 20;
    process.disk_max_bytes = 256 << 20;
    process.stdout_text = "{\"data_version\": 1}";
    const Answer none = read_answer(Command::kDecode, process);
    EXPECT_EQ(none.kind, AnswerKind::kNone);
    return none.text;
  };
  EXPECT_THAT(text_of(ProcessEnd::kSignaled), HasSubstr("signal 11 (Segmentation fault)"));
  EXPECT_THAT(text_of(ProcessEnd::kTimedOut), HasSubstr("after 2.5 s, limit 2.0 s"));
  EXPECT_THAT(text_of(ProcessEnd::kMemoryBroken), HasSubstr("used 300.0 MiB of memory, limit 70.0 MiB"));
  EXPECT_THAT(text_of(ProcessEnd::kLost), HasSubstr("its end was lost"));
  EXPECT_THAT(text_of(ProcessEnd::kDiskBroken), HasSubstr("MiB to disk, limit 256.0 MiB"));
  EXPECT_THAT(text_of(ProcessEnd::kCountBroken), HasSubstr("threads and "));
  EXPECT_THAT(text_of(ProcessEnd::kOutputBroken), HasSubstr("printed more than"));
}

Answer served(Command command, const std::string& line) {
  ProcessResult process;
  process.end = ProcessEnd::kAnswered;
  process.stdout_text = line;
  return read_served_answer(command, 7, process);
}

TEST(ServedAnswer, OneLineOfAnIdAndAnAnswer) {
  EXPECT_EQ(served(Command::kDecode, R"({"id": 7, "decoded": {"data_version": 1}})").document["data_version"], 1);
  EXPECT_EQ(served(Command::kVerify, R"({"verified": true, "id": 7})").kind, AnswerKind::kAccepted);
  EXPECT_EQ(served(Command::kEncode, R"({"id": 7, "encoded": true})").kind, AnswerKind::kAccepted);
  const Answer rejection = served(Command::kVerify, R"({"id": 7, "rejected": {"message": "no", "offset": 3}})");
  EXPECT_EQ(rejection.kind, AnswerKind::kRejected);
  EXPECT_EQ(rejection.rejection.offset, 3u);
  EXPECT_EQ(served(Command::kVerify, R"({"id": 7, "unsupported": "later"})").kind, AnswerKind::kUnsupported);
  const Answer crash = served(Command::kVerify, R"({"id": 7, "crashed": "KeyError: 'a'"})");
  EXPECT_EQ(crash.kind, AnswerKind::kNone);
  EXPECT_TRUE(crash.caught);
  EXPECT_EQ(crash.text, "KeyError: 'a'");
}

TEST(ServedAnswer, EverythingElseIsNone) {
  EXPECT_EQ(served(Command::kDecode, R"({"id": 7, "decoded": "data"})").kind, AnswerKind::kNone);
  for (const char* line :
       {"", "null", "[]", "{}", R"({"id": 7})", R"({"id": 8, "verified": true})", R"({"id": "7", "verified": true})",
        R"({"verified": true})", R"({"id": 7, "verified": false})", R"({"id": 7, "encoded": true})",
        R"({"id": 7, "decoded": {}})", R"({"id": 7, "verified": true, "decoded": {}})",
        R"({"id": 7, "verified": true} {"id": 8})", R"({"id": 7, "rejected": true})", R"({"id": 7, "crashed": 1})"}) {
    const Answer answer = served(Command::kVerify, line);
    EXPECT_EQ(answer.kind, AnswerKind::kNone) << line;
    EXPECT_FALSE(answer.caught) << line;
  }
}

const char* const kProfile = R"({"protocol": 1, "name": "n", "version": "2", "commands": ["decode"],
  "reads": {"layouts": ["v1", "v2"], "lacks": ["meta"], "omits": ["layout"]}})";

// It would forge a line of a report.
TEST(Profile, NamesAreOneLine) {
  const Profile profile = parse_profile(
      R"({"protocol": 1, "name": "n\nx", "version": "1\n9 passed, 0 failed, 0 skipped", "commands": ["decode"],
          "reads": {"layouts": ["v1"]}})");
  EXPECT_EQ(profile.name, "n x");
  EXPECT_EQ(profile.version, "1 9 passed, 0 failed, 0 skipped");
}

TEST(Profile, IsRead) {
  const Profile profile = parse_profile(kProfile);
  EXPECT_EQ(profile.name, "n");
  EXPECT_EQ(profile.version, "2");
  EXPECT_THAT(profile.reads.layouts, UnorderedElementsAre("v1", "v2"));
  EXPECT_THAT(profile.reads.lacks, UnorderedElementsAre("meta"));
  EXPECT_THAT(profile.reads.omits, UnorderedElementsAre("layout"));
  EXPECT_THAT(profile.reads.input_modes, IsEmpty());
  Json with_input_modes = profile.document;
  with_input_modes["reads"]["shapes"] = {"offset", "pipe"};
  EXPECT_THAT(parse_profile(with_input_modes.dump()).reads.input_modes, UnorderedElementsAre("pipe", "offset"));
  EXPECT_TRUE(profile.has(Command::kDecode));
  EXPECT_FALSE(profile.has(Command::kVerify));
  EXPECT_FALSE(profile.serves());
}

TEST(Profile, OfAWriter) {
  const Profile profile = parse_profile(R"({"protocol": 1, "name": "n", "version": "2",
    "commands": ["encode", "serve"], "writes": {"layouts": ["v1"], "lacks": ["meta"], "omits": ["module_index"]}})");
  EXPECT_TRUE(profile.serves());
  EXPECT_THAT(profile.abilities(Command::kEncode).layouts, UnorderedElementsAre("v1"));
  EXPECT_THAT(profile.writes.omits, UnorderedElementsAre("module_index"));
  EXPECT_TRUE(profile.abilities(Command::kDecode).layouts.empty());
}

TEST(Profile, MistakesAreRefused) {
  EXPECT_THROW(parse_profile(""), EnvironmentError);
  EXPECT_THROW(parse_profile("[]"), EnvironmentError);
  struct Row {
    const char* patch;
    const char* message;
  };
  for (const Row& row : {
           Row{R"({"op": "replace", "path": "/protocol", "value": 2})", "protocol 2 is not 1"},
           Row{R"({"op": "remove", "path": "/protocol"})", "key 'protocol' not found"},
           Row{R"({"op": "remove", "path": "/name"})", "key 'name' not found"},
           Row{R"({"op": "replace", "path": "/version", "value": 2})", "must be string"},
           Row{R"({"op": "replace", "path": "/commands", "value": ["decode", "encrypt"]})", "'encrypt' in commands"},
           Row{R"({"op": "replace", "path": "/commands", "value": []})", "none of decode, verify, stream and encode"},
           Row{R"({"op": "remove", "path": "/reads"})", "key 'reads' not found"},
           Row{R"({"op": "replace", "path": "/commands", "value": ["serve"]})",
               "none of decode, verify, stream and encode"},
           Row{R"({"op": "replace", "path": "/commands", "value": ["encode"]})", "key 'writes' not found"},
           Row{R"({"op": "add", "path": "/writes", "value": {"layouts": [], "omits": ["layout"]}})",
               "'layout' in omits"},
           Row{R"({"op": "add", "path": "/writes", "value": {"layouts": [], "shapes": ["pipe"]}})",
               "unknown member 'shapes'"},
           Row{R"({"op": "add", "path": "/reads/shapes", "value": ["file"]})", "'file' in shapes"},
           Row{R"({"op": "replace", "path": "/reads/layouts", "value": ["V4"]})", "'V4' in layouts"},
           Row{R"({"op": "add", "path": "/reads/lack", "value": []})", "unknown member 'lack'"},
           Row{R"({"op": "add", "path": "/lacks", "value": []})", "unknown member 'lacks'"},
           Row{R"({"op": "replace", "path": "/reads/omits", "value": ["sha256"]})", "'sha256' in omits"},
       }) {
    const std::string text = Json::parse(kProfile).patch(Json::parse("[" + std::string(row.patch) + "]")).dump();
    try {
      parse_profile(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.what(), HasSubstr(row.message));
      EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("json.exception")));
    }
  }
}

}  // namespace
}  // namespace tzmark::conformance
