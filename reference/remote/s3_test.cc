// S3: addresses of objects, and where credentials come from.
#include "remote/s3.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "testing/caught.h"
#include "testing/files/memory_file.h"
#include "testing/files/test_directory.h"
#include "tzmark/upload.h"

namespace tzmark {
namespace {

using Values = std::map<std::string, std::string>;

void write_text(const std::string& name, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  test::write_whole(name, {bytes.begin(), bytes.end()});
}

class S3Settings : public ::testing::Test {
 protected:
  AwsSettings settings(Values values) const {
    values.emplace("HOME", directory_ / "home");
    return aws_settings([&](const char* name) -> std::optional<std::string> {
      const auto found = values.find(name);
      return found == values.end() ? std::nullopt : std::optional(found->second);
    });
  }
  ErrorCode error(const Values& values) const {
    return test::caught([&] { settings(values); }).code.value_or(ErrorCode::kReadFailed);
  }
  void write_files() const {
    std::filesystem::create_directories(directory_ / "home/.aws");
    write_text(directory_ / "home/.aws/credentials",
               "# keys\n[default]\naws_access_key_id = ID1\naws_secret_access_key=SECRET1=\n\n"
               "[ work ]\r\naws_access_key_id=ID2\r\naws_secret_access_key = SECRET2\r\naws_session_token = TOKEN2\r\n"
               "[half]\naws_access_key_id = ID3\n");
    write_text(
        directory_ / "home/.aws/config",
        "[default]\nregion = eu-west-1\ns3 =\n  region = nested\n  addressing_style = path\n"
        "[profile work]\nregion=eu-central-1\nendpoint_url = http://minio:9000\n[profile role]\nrole_arn = arn:x\n");
  }

  const test::TestDirectory directory_;
};

TEST_F(S3Settings, AreAnonymousWithoutCredentials) {
  const AwsSettings found = settings({});
  EXPECT_EQ(found.key_id, "");
  EXPECT_EQ(found.region, "us-east-1");
  EXPECT_EQ(found.endpoint, "");
}

TEST_F(S3Settings, ComeFromTheEnvironmentFirst) {
  write_files();
  const AwsSettings found = settings({{"AWS_ACCESS_KEY_ID", "ID"},
                                      {"AWS_SECRET_ACCESS_KEY", "SECRET"},
                                      {"AWS_SESSION_TOKEN", "TOKEN"},
                                      {"AWS_DEFAULT_REGION", "ap-east-1"},
                                      {"AWS_ENDPOINT_URL", "http://one"},
                                      {"AWS_ENDPOINT_URL_S3", "http://two"}});
  EXPECT_EQ(found.key_id, "ID");
  EXPECT_EQ(found.secret_key, "SECRET");
  EXPECT_EQ(found.session_token, "TOKEN");
  EXPECT_EQ(found.region, "ap-east-1");
  EXPECT_EQ(found.endpoint, "http://two");
  EXPECT_EQ(error({{"AWS_ACCESS_KEY_ID", "ID"}}), ErrorCode::kUsage);
  EXPECT_EQ(error({{"AWS_SECRET_ACCESS_KEY", "SECRET"}}), ErrorCode::kUsage);
}

TEST_F(S3Settings, ComeFromFilesThen) {
  write_files();
  const AwsSettings usual = settings({});
  EXPECT_EQ(usual.key_id, "ID1");
  EXPECT_EQ(usual.secret_key, "SECRET1=");
  EXPECT_EQ(usual.session_token, "");
  EXPECT_EQ(usual.region, "eu-west-1");
  const AwsSettings work = settings({{"AWS_PROFILE", "work"}, {"AWS_REGION", "us-west-2"}});
  EXPECT_EQ(work.key_id, "ID2");
  EXPECT_EQ(work.secret_key, "SECRET2");
  EXPECT_EQ(work.session_token, "TOKEN2");
  EXPECT_EQ(work.region, "us-west-2");
  EXPECT_EQ(work.endpoint, "http://minio:9000");
  EXPECT_EQ(settings({{"AWS_NO_SIGN_REQUEST", "YES"}}).key_id, "");
  EXPECT_EQ(settings({{"AWS_NO_SIGN_REQUEST", "false"}}).key_id, "ID1");
  for (const char* const profile : {"half", "role", "absent"}) {
    EXPECT_EQ(error({{"AWS_PROFILE", profile}}), ErrorCode::kUsage) << profile;
  }
  EXPECT_EQ(error({{"AWS_CONFIG_FILE", directory_ / "absent"}}), ErrorCode::kUsage);
  write_text(directory_ / "other", "[default]\naws_access_key_id = ID4\naws_secret_access_key = SECRET4\n");
  EXPECT_EQ(settings({{"AWS_SHARED_CREDENTIALS_FILE", directory_ / "other"}}).key_id, "ID4");
  EXPECT_EQ(error({{"TZMARK_S3_ADDRESSING", "odd"}}), ErrorCode::kUsage);
}

TEST_F(S3Settings, NameAnEndpointIfAsked) {
  write_files();
  const Values asked = {{"TZMARK_S3_CREDENTIALS", "container"},
                        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"},
                        {"AWS_PROFILE", "work"}};
  const AwsSettings found = settings(asked);
  EXPECT_EQ(found.credentials_endpoint->address, "http://169.254.170.2/x");
  EXPECT_EQ(found.key_id, "");
  EXPECT_EQ(found.region, "eu-central-1");
  const Access access = s3_location("s3://b/k", found).access;
  EXPECT_EQ(access.kind, Access::Kind::kAws);
  EXPECT_EQ(access.endpoint, found.credentials_endpoint);
  EXPECT_EQ(access.signature, "aws:amz:eu-central-1:s3");
  // Its endpoint and region count, so that a profile that is not there is a mistake.
  Values mistaken = asked;
  mistaken["AWS_PROFILE"] = "wrok";
  EXPECT_EQ(error(mistaken), ErrorCode::kUsage);
  Values anonymous = asked;
  anonymous["AWS_NO_SIGN_REQUEST"] = "1";
  EXPECT_FALSE(settings(anonymous).credentials_endpoint);
  for (const char* const value : {"", "odd", "instance "}) {
    EXPECT_EQ(error({{"TZMARK_S3_CREDENTIALS", value}, {"AWS_NO_SIGN_REQUEST", "1"}}), ErrorCode::kUsage) << value;
  }
}

TEST_F(S3Settings, RefuseWebIdentity) {
  Values values = {{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"}, {"AWS_ROLE_ARN", "arn:x"}};
  EXPECT_NE(test::message_of([&] { settings(values); }).find("export-credentials"), std::string::npos);
  values["AWS_NO_SIGN_REQUEST"] = "1";
  EXPECT_EQ(settings(values).key_id, "");
  values.erase("AWS_NO_SIGN_REQUEST");
  write_files();
  EXPECT_EQ(settings(values).key_id, "ID1");
}

TEST_F(S3Settings, AreNoPipeAndNoDirectory) {
  write_files();
  ASSERT_EQ(::mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  for (const std::string& name : {directory_ / "pipe", directory_ / "home"}) {
    EXPECT_EQ(error({{"AWS_SHARED_CREDENTIALS_FILE", name}}), ErrorCode::kUsage) << name;
    EXPECT_EQ(error({{"AWS_CONFIG_FILE", name}}), ErrorCode::kUsage) << name;
  }
  // Those of the user as well, unless the environment makes them superfluous.
  std::filesystem::remove(directory_ / "home/.aws/credentials");
  ASSERT_EQ(::mkfifo((directory_ / "home/.aws/credentials").c_str(), 0600), 0);
  EXPECT_EQ(error({}), ErrorCode::kUsage);
  EXPECT_EQ(settings({{"AWS_ACCESS_KEY_ID", "ID"}, {"AWS_SECRET_ACCESS_KEY", "SECRET"}}).region, "eu-west-1");
}

TEST(AwsFile, TakesWhateverIsThere) {
  EXPECT_TRUE(parse_aws_file("").empty());
  EXPECT_TRUE(parse_aws_file("key = value\n=\n").empty());
  EXPECT_EQ(parse_aws_file("[a]\nk=v\n[a]\nl = w=x\n").at("a"),
            (std::map<std::string, std::string>{{"k", "v"}, {"l", "w=x"}}));
  EXPECT_TRUE(parse_aws_file("[profile  x").contains("profile x"));
}

TEST(S3Location, IsAUrl) {
  const auto url = [](const char* name, AwsSettings settings = {}) { return s3_location(name, settings).url; };
  EXPECT_EQ(url("s3://bucket/a/b.tensors"), "https://bucket.s3.us-east-1.amazonaws.com/a/b.tensors");
  EXPECT_EQ(url("S3://my.bucket/a"), "https://s3.us-east-1.amazonaws.com/my.bucket/a");
  EXPECT_EQ(url("s3://bucket/a", {.region = "cn-north-1"}), "https://bucket.s3.cn-north-1.amazonaws.com.cn/a");
  EXPECT_EQ(url("s3://bucket//a/..x/ +%?#\xC3\xA9~"),
            "https://bucket.s3.us-east-1.amazonaws.com//a/..x/%20%2B%25%3F%23%C3%A9~");
  EXPECT_EQ(url("s3://bucket/a", {.endpoint = "http://127.0.0.1:9000"}), "http://127.0.0.1:9000/bucket/a");
  EXPECT_EQ(url("s3://bucket/a", {.endpoint = "https://h/under/"}), "https://h/under/bucket/a");
  EXPECT_EQ(url("s3://bucket/a", {.endpoint = "http://h:1", .addressing = AwsSettings::Addressing::kVirtual}),
            "http://bucket.h:1/a");
  EXPECT_EQ(url("s3://bucket/a", {.addressing = AwsSettings::Addressing::kPath}),
            "https://s3.us-east-1.amazonaws.com/bucket/a");
}

TEST(S3Location, RefusesWhatIsNoObject) {
  for (const char* const name : {"s3://", "s3://bucket", "s3://bucket/", "s3:///key", "s3://id:secret@bucket/key",
                                 "s3://bucket/../other/key", "s3://bucket/a/./b", "s3://bucket/a/.."}) {
    EXPECT_EQ(test::caught([&] { s3_location(name, {}); }).code, ErrorCode::kUsage) << name;
    EXPECT_EQ(test::message_of([&] { s3_location(name, {}); }).find("secret"), std::string::npos) << name;
  }
  for (const char* const endpoint : {"minio:9000", "s3://x", "http://u:secret@h", "http://h/?q"}) {
    EXPECT_EQ(test::caught([&] { s3_location("s3://b/k", {.endpoint = endpoint}); }).code, ErrorCode::kUsage)
        << endpoint;
  }
  EXPECT_EQ(test::caught([] { s3_location("s3://b/k", {.region = "x/y"}); }).code, ErrorCode::kUsage);
}

TEST(S3Location, TakesDotsThatAreNoSegment) {
  for (const char* const key : {"a.b", "...", "a/.b", ".a/b.", "-._~"}) {
    EXPECT_EQ(s3_location("s3://b/" + std::string(key), {.endpoint = "http://h"}).url,
              "http://h/b/" + std::string(key));
  }
}

TEST(S3Location, SignsWithCredentials) {
  EXPECT_EQ(s3_location("s3://b/k", {}).access.kind, Access::Kind::kNone);
  const Access access =
      s3_location("s3://b/k", {.key_id = "ID", .secret_key = "SECRET", .session_token = "T", .region = "eu-west-1"})
          .access;
  EXPECT_EQ(access.kind, Access::Kind::kAws);
  EXPECT_EQ(access.user, "ID");
  EXPECT_EQ(access.password, "SECRET");
  EXPECT_EQ(access.session_token, "T");
  EXPECT_EQ(access.signature, "aws:amz:eu-west-1:s3");
}

TEST(S3Url, IsKnownByItsScheme) {
  for (const char* url : {"s3://bucket/key", "S3://bucket/key"}) EXPECT_TRUE(is_s3_url(url)) << url;
  for (const char* name : {"https://s3/key", "s3:bucket", "s3", "./s3://bucket/key", ""}) {
    EXPECT_FALSE(is_s3_url(name)) << name;
  }
}

}  // namespace
}  // namespace tzmark
