// Failures of an adapter with files that the model judges, and which of them are the same.
#include "mutation/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "testing/test_corpus.h"
#include "testing/test_environment.h"

namespace tzmark::conformance::mutation {
namespace {

const std::vector<Command> kCommands = {Command::kDecode, Command::kVerify};

// Answers decode with DECODE and verify with VERIFY, which are shell scripts.
Adapter scripted(const std::string& decode, const std::string& verify, const std::atomic<bool>& cancelled) {
  const std::string profile = R"({"protocol": 1, "name": "scripted", "version": "1", "commands": ["decode", "verify"],
    "reads": {"layouts": ["v1"]}})";
  const std::string script =
      "case $1 in capabilities) echo '" + profile + "';; decode) " + decode + ";; verify) " + verify + ";; esac";
  return Adapter({"/bin/bash", "-c", script, "scripted"}, cancelled);
}

constexpr std::size_t kKindOffset = 76;  // in the index entry

constexpr const char* kAccepts = R"(echo '{"data_version": 1, "tensors": []}')";
constexpr const char* kVerifies = R"(echo '{"verified": true}')";

std::string refuses(const std::string& rule, const std::string& message) {
  return R"(echo '{"rejected": {"rule": )" + rule + R"(, "offset": null, "message": ")" + message + R"("}}'; exit 1)";
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class Failing : public testing::Test {
 protected:
  std::optional<Failure> find(const std::string& decode, const std::string& verify, const std::string& file) {
    const Adapter adapter = scripted(decode, verify, cancelled_);
    const std::vector<std::byte> bytes = bytes_of(file);
    const auto failure = find_failure(adapter, format_of_name("tensorizer"), bytes, {}, kCommands);
    // Whatever it is, it is the same when asked again.
    EXPECT_TRUE(!failure || fails_alike(adapter, format_of_name("tensorizer"), bytes, {}, *failure));
    return failure;
  }

  std::string valid_ = worked_example();
  std::string bad_magic_ = "X" + valid_.substr(1);
  std::string bad_hash_ = worked_example().replace(valid_.find("\x82\x03\xab\x09"), 1, "\x83");
  std::atomic<bool> cancelled_ = false;
};

TEST_F(Failing, IsNothingWhereTheAnswerIsRight) {
  const std::string refused = refuses("\"TZR-HDR-002\"", "no");
  EXPECT_FALSE(find(refused, refused, bad_magic_));
  EXPECT_FALSE(find("echo '{\"unsupported\": \"no\"}'; exit 2", kVerifies, valid_));
}

TEST_F(Failing, AcceptsWhatBreaksARule) {
  const auto failure = find(kAccepts, kVerifies, bad_magic_);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->command, Command::kDecode);
  EXPECT_EQ(failure->outcome, Outcome::kAcceptedInvalid);
  EXPECT_EQ(failure->rule, "TZR-HDR-002");
}

TEST_F(Failing, OfVerifyAloneIsFoundToo) {
  const auto failure = find("echo '{\"unsupported\": \"no\"}'; exit 2", kVerifies, bad_hash_);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->command, Command::kVerify);
  EXPECT_EQ(failure->rule, "TZR-HSH-005");
}

TEST_F(Failing, OfARefusalIsToldByItsRuleOrItsWords) {
  const auto by_rule = find(refuses("\"TZR-IDX-001\"", "a 1"), kVerifies, valid_);
  const auto by_words = find(refuses("null", "no room for 12 bytes in \\u0027w\\u0027: too few"), kVerifies, valid_);
  ASSERT_TRUE(by_rule && by_words);
  EXPECT_EQ(by_rule->outcome, Outcome::kRejectedValid);
  EXPECT_EQ(by_rule->sign, "TZR-IDX-001");
  EXPECT_EQ(by_words->sign, "no room for  bytes in ");
  EXPECT_EQ(by_words->rule, "");
}

TEST_F(Failing, OfACrashIsToldBySignalOrException) {
  const auto killed = find("kill -SEGV $$", kVerifies, valid_);
  const auto raised = find("echo 'ValueError: 17 is no' >&2; exit 1", kVerifies, valid_);
  ASSERT_TRUE(killed && raised);
  EXPECT_EQ(killed->sign, "11");
  EXPECT_EQ(raised->outcome, Outcome::kCrash);
  EXPECT_THAT(raised->sign, testing::EndsWith("; ValueError"));
}

TEST_F(Failing, OfWrongDataIsToldByTheMember) {
  const auto failure = find(kAccepts, kVerifies, valid_);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->outcome, Outcome::kWrongData);
  EXPECT_EQ(failure->sign, "/layout");
}

TEST_F(Failing, IsTheSameOnlyForTheSameReason) {
  const auto failure = find(kAccepts, kVerifies, bad_magic_);
  ASSERT_TRUE(failure);
  EXPECT_TRUE(is_same_reason(*failure, *failure));
  const auto differs = [&](auto change) {
    Failure other = *failure;
    change(other);
    return !is_same_reason(*failure, other);
  };
  EXPECT_TRUE(differs([](Failure& f) { f.command = Command::kVerify; }));
  EXPECT_TRUE(differs([](Failure& f) { f.outcome = Outcome::kCrash; }));
  EXPECT_TRUE(differs([](Failure& f) { f.rule = "TZR-HDR-003"; }));
  EXPECT_TRUE(differs([](Failure& f) { f.sign = "something"; }));
  EXPECT_TRUE(differs([](Failure& f) { f.broken.insert("TZR-HSH-005"); }));
  EXPECT_FALSE(differs([](Failure& f) { f.broken.clear(); }));
}

TEST_F(Failing, IsNotAlikeInAFileThatBreaksMore) {
  const Adapter adapter = scripted(kAccepts, kVerifies, cancelled_);
  const auto failure = find_failure(adapter, format_of_name("tensorizer"), bytes_of(bad_magic_), {}, kCommands);
  ASSERT_TRUE(failure);
  std::string worse = bad_magic_;
  worse[kKindOffset] = 9;
  EXPECT_FALSE(fails_alike(adapter, format_of_name("tensorizer"), bytes_of(worse), {}, *failure));
  EXPECT_FALSE(fails_alike(adapter, format_of_name("tensorizer"), bytes_of(valid_), {}, *failure));
}

}  // namespace
}  // namespace tzmark::conformance::mutation
