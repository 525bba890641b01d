// Fake drivers (shell scripts) that answer, fail, send garbage, hang and exit.
#include "harness/peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <optional>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr const char* kHello = R"(echo '{"peer": "shell", "version": "1"}'; )";
constexpr milliseconds kLong = std::chrono::seconds(20);

// A driver that says hello and then runs the script for each line, which is in $line.
std::vector<std::string> driver(const std::string& script) {
  return {"sh", "-c", std::string(kHello) + "while read -r line; do " + script + "; done"};
}

std::optional<Error> error_of(const std::vector<std::string>& argv, milliseconds timeout = kLong) {
  try {
    Peer peer(argv, timeout);
    peer.request({{"op", "read"}}, timeout);
    return {};
  } catch (const Error& error) {
    return error;
  }
}

class PeerTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a driver is left";
    EXPECT_EQ(errno, ECHILD);
  }
};

TEST_F(PeerTest, AnswersEachQuestion) {
  Peer peer(driver(R"(echo "{\"heard\": $line}")"), kLong);
  EXPECT_EQ(peer.hello()["peer"], "shell");
  for (int i = 0; i < 3; ++i) {
    const json question = {{"op", "read"}, {"file", "a \"name\""}, {"number", i}};
    EXPECT_EQ(peer.request(question, kLong)["heard"], question);
  }
}

TEST_F(PeerTest, LongLinesPassBothWays) {
  // More than the buffers of pipes and sockets.
  Peer peer(driver(R"(printf '%s\n' "$line")"), kLong);
  const json question = {{"text", std::string(600'000, 'x')}};
  EXPECT_EQ(peer.request(question, kLong), question);
}

TEST_F(PeerTest, IsAskedToQuit) {
  const auto begin = Clock::now();
  { const Peer peer(driver(R"(case "$line" in *quit*) exit 0;; esac)"), kLong); }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(PeerTest, OneThatStaysIsKilled) {
  const auto begin = Clock::now();
  { const Peer peer({"sh", "-c", std::string(kHello) + "trap '' TERM; exec sleep 60"}, kLong); }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(PeerTest, UnavailableSaysWhy) {
  const auto error = error_of({"sh", "-c", R"(echo '{"unavailable": "no such package"}')"});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->message(), HasSubstr("no such package"));
}

TEST_F(PeerTest, AbsentInterpreterIsUnavailable) {
  EXPECT_EQ(error_of({"/no/such/python", "driver.py"})->code(), ErrorCode::kUnavailable);
}

TEST_F(PeerTest, ErrorOfAnOperationLeavesTheDriver) {
  Peer peer(driver(R"(case "$line" in *bad*) echo '{"error": "it is bad"}';; *) echo '{"ok": true}';; esac)"), kLong);
  try {
    peer.request({{"op", "bad"}}, kLong);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResource);
    EXPECT_THAT(error.message(), HasSubstr("it is bad"));
  }
  EXPECT_EQ(peer.request({{"op", "good"}}, kLong)["ok"], true);
}

TEST_F(PeerTest, EndHasStatusAndTailOfStderr) {
  const auto error = error_of(driver("echo 'Traceback: it broke' >&2; exit 3"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kResource);
  EXPECT_THAT(error->message(), HasSubstr("exit status 3"));
  EXPECT_THAT(error->message(), HasSubstr("Traceback: it broke"));
}

TEST_F(PeerTest, EndBeforeHelloIsAnError) {
  const auto error = error_of({"sh", "-c", "echo 'no module' >&2; exit 1"});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("no module"));
}

TEST_F(PeerTest, SilenceIsAnErrorInTime) {
  const auto begin = Clock::now();
  const auto error = error_of(driver("echo 'thinking' >&2; sleep 60"), milliseconds(400));
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("did not answer in time"));
  EXPECT_THAT(error->message(), HasSubstr("thinking"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

// One that always has more to say is never silent.
TEST_F(PeerTest, AnEndlessLineIsAnErrorInTimeAndRoom) {
  const auto begin = Clock::now();
  const auto slow = error_of(driver("while sleep 0.05; do printf x; done"), milliseconds(400));
  ASSERT_TRUE(slow);
  EXPECT_THAT(slow->message(), HasSubstr("did not answer in time"));
  const auto fast = error_of(driver("exec cat /dev/zero"));
  ASSERT_TRUE(fast);
  EXPECT_THAT(fast->message(), HasSubstr("more than 16777216 bytes in a line"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(PeerTest, DeepValuesAreAnError) {
  const auto nested = [](int levels) {
    const std::string count = std::to_string(levels);
    return R"(printf '{"unavailable": '; head -c )" + count + " /dev/zero | tr '\\0' '['; head -c " + count +
           " /dev/zero | tr '\\0' ']'; echo '}'";
  };
  for (const int levels : {100, 1'000'000}) {
    const auto error = error_of(driver(nested(levels)));
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message(), HasSubstr("nested more than 64 levels deep"));
    EXPECT_THAT(error_of({"sh", "-c", nested(levels)})->message(), HasSubstr("nested more than 64 levels deep"));
  }
}

TEST_F(PeerTest, WhatIsNoObjectIsAnError) {
  EXPECT_THAT(error_of(driver("echo done"))->message(), HasSubstr("answered 'done'"));
  EXPECT_THAT(error_of(driver("echo 17"))->message(), HasSubstr("answered '17'"));
}

TEST_F(PeerTest, NothingIsAskedOfADriverThatIsGone) {
  Peer peer(driver("exit 1"), kLong);
  EXPECT_THROW(peer.request({{"op", "read"}}, kLong), Error);
  EXPECT_THROW(peer.request({{"op", "read"}}, kLong), Error);
}

}  // namespace
}  // namespace tzmark::bench
