// S3: where an object is, and with which credentials it is read.
//
// Credentials come from the environment, or from the files that `aws configure` writes. Those of containers and
// instances are asked for only if TZMARK_S3_CREDENTIALS says so: see remote/credentials.h.
//
// The functions are thread-safe. Errors: TZE-USE-001, without any secret.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "remote/credentials.h"
#include "remote/object.h"
#include "remote/settings.h"

namespace tzmark {

// Sections of an INI file, as the AWS tools read it: "[profile name]" is a section "profile name". A line with a blank
// at its beginning belongs to the setting before it, and is left out.
using AwsSections = std::map<std::string, std::map<std::string, std::string>>;
AwsSections parse_aws_file(std::string_view text);

struct AwsSettings {
  std::string key_id = {}, secret_key = {}, session_token = {};  // no key id: requests are not signed
  std::optional<CredentialsEndpoint> credentials_endpoint = {};  // instead of a key id
  std::string region = "us-east-1";
  std::string endpoint = {};  // URL of a server other than that of AWS; empty for AWS
  enum class Addressing { kAuto, kPath, kVirtual };
  // Whether the bucket is in the path of URLs or in the name of the host. kAuto: in the path if there is an endpoint.
  Addressing addressing = Addressing::kAuto;
};

AwsSettings aws_settings(const Environment& environment);

struct S3Location {
  std::string url;
  std::string bucket_url;  // for requests about all of its objects
  Access access;
};

// s3_url: s3://bucket/key. Every character of the key stands for itself.
S3Location s3_location(std::string_view s3_url, const AwsSettings& settings);

}  // namespace tzmark
