// Retries: how long they pause, and what the environment sets.
#include "remote/settings.h"

#include <gtest/gtest.h>

#include <map>

#include "testing/caught.h"

namespace tzmark {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Environment environment_of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(RemoteSettings, ComeFromTheEnvironment) {
  const RemoteSettings usual = remote_settings(environment_of({}));
  EXPECT_EQ(usual.attempts_max, 5U);
  EXPECT_EQ(usual.deadline, seconds(600));
  const RemoteSettings other = remote_settings(environment_of({{"TZMARK_HTTP_ATTEMPTS", "2"},
                                                               {"TZMARK_HTTP_PAUSE_MS", "20000"},
                                                               {"TZMARK_HTTP_STALL_S", "3"},
                                                               {"TZMARK_HTTP_DEADLINE_S", "9"},
                                                               {"TZMARK_HTTP_COPY_MIB", "3"},
                                                               {"SSL_CERT_FILE", "/certificates"}}));
  EXPECT_EQ(other.attempts_max, 2U);
  EXPECT_EQ(other.first_pause, seconds(20));
  EXPECT_EQ(other.pause_max, seconds(20));
  EXPECT_EQ(other.stall_max, seconds(3));
  EXPECT_EQ(other.connect_max, seconds(3));
  EXPECT_EQ(other.deadline, seconds(9));
  EXPECT_EQ(usual.copy_bytes_max, std::uint64_t{16} << 30);
  EXPECT_EQ(other.copy_bytes_max, std::uint64_t{3} << 20);
  EXPECT_EQ(other.ca_file, "/certificates");
  for (const char* const value : {"0", "101", "x", "5x", "-1", "99999999999999999999"}) {
    EXPECT_EQ(test::caught([&] {
                remote_settings(environment_of({{"TZMARK_HTTP_ATTEMPTS", value}}));
              }).code,
              ErrorCode::kUsage)
        << value;
  }
}

TEST(RemoteSettings, GiveExponentialPausesWithJitter) {
  const RemoteSettings settings;
  std::minstd_rand random(1);
  bool differs = false;
  for (unsigned failures = 1; failures < 100; ++failures) {
    const auto most =
        std::min<milliseconds>(settings.first_pause * (1 << std::min(failures - 1, 10U)), settings.pause_max);
    const auto first = pause_before_retry(settings, failures, std::nullopt, random);
    const auto second = pause_before_retry(settings, failures, std::nullopt, random);
    EXPECT_GE(first, most / 2) << failures;
    EXPECT_LE(first, most) << failures;
    differs |= first != second;
  }
  EXPECT_TRUE(differs);
}

TEST(RemoteSettings, WaitAsLongAsTheServerSays) {
  const RemoteSettings settings;
  std::minstd_rand random(1);
  EXPECT_EQ(pause_before_retry(settings, 1, seconds(60), random), seconds(60));
  EXPECT_GE(pause_before_retry(settings, 1, seconds(0), random), settings.first_pause / 2);
}

}  // namespace
}  // namespace tzmark
