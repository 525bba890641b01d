// Credentials of containers and instances: which endpoints may be asked, and which answers are accepted.
#include "remote/credentials.h"

#include <gtest/gtest.h>

#include <map>
#include <span>

#include "testing/caught.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using std::chrono::system_clock;
using Kind = CredentialsEndpoint::Kind;
using Variables = std::map<std::string, std::string>;

std::optional<CredentialsEndpoint> endpoint_of(const Variables& variables) {
  return credentials_endpoint([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::optional<CredentialsEndpoint> container_at(const std::string& url) {
  return endpoint_of({{"TZMARK_S3_CREDENTIALS", "container"}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI", url}});
}

std::optional<CredentialsEndpoint> instance_at(const std::string& url) {
  return endpoint_of({{"TZMARK_S3_CREDENTIALS", "instance"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", url}});
}

TEST(CredentialsEndpoint, IsUsedOnlyIfAskedFor) {
  EXPECT_FALSE(endpoint_of({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"}}));
  for (const char* const value : {"", "Container", "ec2", "container "}) {
    EXPECT_EQ(test::caught([&] {
                endpoint_of({{"TZMARK_S3_CREDENTIALS", value}, {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"}});
              }).code,
              ErrorCode::kUsage)
        << value;
  }
  for (const char* const key : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}) {
    const std::string message = test::message_of([&] {
      endpoint_of({{"TZMARK_S3_CREDENTIALS", "instance"}, {key, "hunter2"}});
    });
    EXPECT_NE(message.find("unset one of them"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos);
  }
}

TEST(CredentialsEndpoint, OfAContainer) {
  const Variables relative = {{"TZMARK_S3_CREDENTIALS", "container"},
                              {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/id?a=b"},
                              {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://other/"},
                              {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "TOKEN"}};
  EXPECT_EQ(endpoint_of(relative),
            (CredentialsEndpoint{Kind::kContainer, "http://169.254.170.2/v2/credentials/id?a=b", "TOKEN"}));
  EXPECT_EQ(test::caught([] { endpoint_of({{"TZMARK_S3_CREDENTIALS", "container"}}); }).code, ErrorCode::kUsage);
  for (const char* const uri : {"", "x", "@evil.example/", "http://169.254.170.2/x"}) {
    Variables other = relative;
    other["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = uri;
    EXPECT_EQ(test::caught([&] { endpoint_of(other); }).code, ErrorCode::kUsage) << uri;
  }
}

TEST(CredentialsEndpoint, IsOnThisMachineOrSecure) {
  for (const char* const url : {"https://models.example/x", "http://127.0.0.1:8080/x", "http://127.1.2.3/x",
                                "http://localhost/x", "http://[::1]:1/x", "http://169.254.170.2/x",
                                "http://169.254.170.23/v1/credentials", "http://[fd00:ec2::23]/v1/credentials"}) {
    EXPECT_EQ(container_at(url)->address, url);
  }
  for (const char* const url :
       {"http://models.example/x", "http://10.0.0.1/x", "http://169.254.169.254/x", "http://128.0.0.1/x",
        "http://127.0.0.1.example/x", "http://2130706433/x", "http://[::ffff:127.0.0.1]/x", "http://[fd00:ec2::254]/x",
        "ftp://127.0.0.1/x", "127.0.0.1/x", "http://u:hunter2@127.0.0.1/x", "http://127.0.0.1@evil.example/x"}) {
    EXPECT_EQ(test::caught([&] { container_at(url); }).code, ErrorCode::kUsage) << url;
    EXPECT_EQ(test::message_of([&] { container_at(url); }).find("hunter2"), std::string::npos) << url;
  }
}

TEST(CredentialsEndpoint, OfAnInstance) {
  Variables variables = {{"TZMARK_S3_CREDENTIALS", "instance"}};
  EXPECT_EQ(endpoint_of(variables), (CredentialsEndpoint{Kind::kInstance, "http://169.254.169.254"}));
  EXPECT_EQ(instance_at("http://[fd00:ec2::254]/")->address, "http://[fd00:ec2::254]");
  EXPECT_EQ(instance_at("http://127.0.0.1:1338/under/")->address, "http://127.0.0.1:1338/under");
  for (const char* const url : {"http://10.0.0.1/", "169.254.169.254", "http://169.254.169.254/?x"}) {
    EXPECT_EQ(test::caught([&] { instance_at(url); }).code, ErrorCode::kUsage) << url;
  }
  variables["AWS_EC2_METADATA_DISABLED"] = "false";
  EXPECT_TRUE(endpoint_of(variables));
  variables["AWS_EC2_METADATA_DISABLED"] = "True";
  EXPECT_EQ(test::caught([&] { endpoint_of(variables); }).code, ErrorCode::kUsage);
}

TEST(AuthorizationField, ComesFromTheFileFirst) {
  const auto write = [](const std::string& name, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    test::write_whole(name, {bytes.begin(), bytes.end()});
  };
  const test::TestDirectory directory;
  const std::string name = directory / "token";
  const CredentialsEndpoint endpoint{Kind::kContainer, "http://127.0.0.1/", "OTHER", name};
  const auto error = [&] { return test::caught([&] { authorization_field(endpoint); }).code; };
  EXPECT_EQ(error(), ErrorCode::kUsage);
  for (const char* const token : {"hunter2", "hunter2\n", "hunter2\r\n"}) {
    write(name, token);
    EXPECT_EQ(authorization_field(endpoint), "Authorization: hunter2");
  }
  for (const std::string& token :
       {std::string(), std::string("\n"), std::string("hunter2\nX-Other: 1"), std::string(1 << 20, 'x')}) {
    write(name, token);
    EXPECT_EQ(error(), ErrorCode::kUsage);
    EXPECT_EQ(test::message_of([&] { authorization_field(endpoint); }).find("hunter2"), std::string::npos);
  }
  EXPECT_EQ(authorization_field({Kind::kContainer, "http://127.0.0.1/", "Basic x y"}), "Authorization: Basic x y");
  EXPECT_EQ(authorization_field({Kind::kContainer, "http://127.0.0.1/"}), "");
  EXPECT_EQ(test::caught([] {
              authorization_field({Kind::kContainer, "http://127.0.0.1/", "a\rb"});
            }).code,
            ErrorCode::kUsage);
}

TEST(Expiration, IsATimeOfUtc) {
  const auto known = system_clock::from_time_t(1'767'229'323);
  for (const char* const text : {"2026-01-01T01:02:03Z", "2026-01-01T01:02:03.999Z", "2026-01-01T01:02:03+00:00"}) {
    EXPECT_EQ(parse_expiration(text), known) << text;
  }
  for (const char* const text : {"", "2026-01-01", "2026-01-01T01:02:03", "2026-01-01T01:02:03+01:00", "1767225723",
                                 "2026-01-01T01:02:03Z ", "2026-13-01T01:02:03Z", "2026-01-01T01:02:03."}) {
    EXPECT_FALSE(parse_expiration(text)) << text;
  }
  // Before the first and after the last moment that the clock can count.
  EXPECT_EQ(parse_expiration("1015-01-01T00:00:00Z"), system_clock::from_time_t(0));
  EXPECT_GT(parse_expiration("9999-01-01T00:00:00Z"), known);
}

TEST(CredentialsAnswer, HasAllFields) {
  const std::string rest = R"("AccessKeyId": "ID", "SecretAccessKey": "hunter2", "Token": "T+/=")";
  const std::string end = R"(, "Expiration": "2026-01-01T01:02:03Z"})";
  const auto found = parse_credentials(R"({"Code": "Success", "Other": [1], )" + rest + end);
  EXPECT_EQ(found.key_id, "ID");
  EXPECT_EQ(found.secret_key, "hunter2");
  EXPECT_EQ(found.session_token, "T+/=");
  EXPECT_EQ(found.expires_at, system_clock::from_time_t(1'767'229'323));
  EXPECT_EQ(parse_credentials("{" + rest + end).key_id, "ID");
  const auto without = [&](std::string_view part, const char* other) {
    std::string text = "{" + rest + end;
    return text.replace(text.find(part), part.size(), other);
  };
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("hunter2"), "{" + rest, "[" + std::string(60'000, '['),
        R"({"Code": "AssumeRoleUnauthorizedAccess hunter2", )" + rest + end, R"({"Code": 1, )" + rest + end,
        without(R"("AccessKeyId": "ID", )", ""), without(R"(, "Token": "T+/=")", ""),
        without(R"("SecretAccessKey": "hunter2", )", ""), "{" + rest + "}", without(R"("T+/=")", "1"),
        without(R"("ID")", R"("")"), without("T+/=", R"(T\nhunter2: 1)"), without("T+/=", "T \\u00e9"),
        without("2026-01-01", "hunter2")}) {
    EXPECT_EQ(test::caught([&] { parse_credentials(text); }).code, ErrorCode::kOpenFailed) << text.substr(0, 200);
    EXPECT_EQ(test::message_of([&] { parse_credentials(text); }).find("hunter2"), std::string::npos);
  }
}

TEST(CredentialsAnswer, NamesARole) {
  for (const char* const name : {"role", "a.b+c=d,e@f-g_H1"}) EXPECT_TRUE(is_role_name(name)) << name;
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("a b"), std::string("a?b"), std::string(200, 'a')}) {
    EXPECT_FALSE(is_role_name(name)) << name;
  }
}

TEST(RefreshTime, IsBeforeTheEnd) {
  using std::chrono::seconds;
  const auto now = system_clock::from_time_t(1'767'229'323);
  EXPECT_EQ(refresh_time(now, now + seconds(3600)), now + seconds(3300));
  EXPECT_EQ(refresh_time(now, now + seconds(600)), now + seconds(300));
  EXPECT_EQ(refresh_time(now, now + seconds(10)), now + seconds(5));
}

}  // namespace
}  // namespace tzmark
