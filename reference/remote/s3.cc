// See remote/s3.h.
#include "remote/s3.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "io/url.h"
#include "remote/text_file.h"
#include "tzmark/error.h"
#include "tzmark/upload.h"

namespace tzmark {
namespace {

constexpr const char* kExport =
    "export them to the environment, as `aws configure export-credentials --format env` prints them";
constexpr std::size_t kConfigBytesMax = 1 << 20;
// What a path of S3 contains as it is, and what a signature is computed of.
constexpr std::string_view kPlainInKey = "-._~/";

[[noreturn]] void refuse_settings(const std::string& why) { throw Error(ErrorCode::kUsage, why); }

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Reads a file of settings. Returns nothing if there is no such file, unless it must exist.
std::optional<AwsSections> read_aws_file(const Environment& environment, const char* variable, const char* usual) {
  const auto named = environment(variable);
  const auto home = environment("HOME");
  if (!named && !home) return std::nullopt;
  const std::string name = named ? *named : *home + usual;
  const auto problem = [&](const std::string& why) {
    return named ? fmt::format("cannot read {}, which {} names: {}", name, variable, why)
                 : fmt::format("cannot read {}: {}", name, why);
  };
  std::error_code absent;
  if (!named && !std::filesystem::exists(name, absent) && !absent) return std::nullopt;
  try {
    return parse_aws_file(read_text_file(name, kConfigBytesMax));
  } catch (const Error& error) {
    refuse_settings(problem(error.message()));
  }
}

// Whether the environment says who asks, so that no file of credentials is needed.
bool knows_credentials(const Environment& environment) {
  return environment("AWS_ACCESS_KEY_ID") && environment("AWS_SECRET_ACCESS_KEY");
}

const std::string* value_of(const AwsSections& sections, const std::string& section, const char* name) {
  const auto found = sections.find(section);
  if (found == sections.end()) return nullptr;
  const auto value = found->second.find(name);
  return value == found->second.end() || value->second.empty() ? nullptr : &value->second;
}

// A profile: its sections in both files, that of the credentials first.
class AwsProfile {
 public:
  explicit AwsProfile(const Environment& environment)
      : named_(environment("AWS_PROFILE")),
        name_(named_.value_or("default")),
        credentials_(knows_credentials(environment)
                         ? AwsSections()
                         : read_aws_file(environment, "AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials")
                               .value_or(AwsSections())),
        config_(read_aws_file(environment, "AWS_CONFIG_FILE", "/.aws/config").value_or(AwsSections())) {}

  const std::string* value(const char* name) const {
    if (const std::string* const found = value_of(credentials_, name_, name)) return found;
    if (const std::string* const found = value_of(config_, "profile " + name_, name)) return found;
    return name_ == "default" ? value_of(config_, name_, name) : nullptr;
  }
  void set(std::string& setting, const char* name) const {
    if (const std::string* const found = value(name)) setting = *found;
  }
  bool exists() const {
    return credentials_.contains(name_) || config_.contains("profile " + name_) || config_.contains(name_);
  }
  bool is_named() const { return named_.has_value(); }
  const std::string& name() const { return name_; }

 private:
  const std::optional<std::string> named_;
  const std::string name_;
  const AwsSections credentials_, config_;
};

void require_profile(const AwsProfile& profile) {
  if (!profile.is_named() || profile.exists()) return;
  refuse_settings(
      fmt::format("AWS_PROFILE names the profile '{}', which the files of AWS do not contain", profile.name()));
}

void set_credentials(const Environment& environment, const AwsProfile& profile, AwsSettings& settings) {
  auto endpoint = credentials_endpoint(environment);
  if (const auto anonymous = environment("AWS_NO_SIGN_REQUEST")) {
    if (*anonymous != "NO" && *anonymous != "false" && *anonymous != "0") return;
  }
  settings.credentials_endpoint = std::move(endpoint);
  if (settings.credentials_endpoint) {
    require_profile(profile);
    return;
  }
  const auto key_id = environment("AWS_ACCESS_KEY_ID");
  const auto secret_key = environment("AWS_SECRET_ACCESS_KEY");
  if (key_id.has_value() != secret_key.has_value()) {
    refuse_settings("only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set");
  }
  if (key_id) {
    settings.key_id = *key_id;
    settings.secret_key = *secret_key;
    settings.session_token = environment("AWS_SESSION_TOKEN").value_or("");
    return;
  }
  require_profile(profile);
  profile.set(settings.key_id, "aws_access_key_id");
  profile.set(settings.secret_key, "aws_secret_access_key");
  profile.set(settings.session_token, "aws_session_token");
  if (settings.key_id.empty() != settings.secret_key.empty()) {
    refuse_settings(
        fmt::format("the profile '{}' has only one of aws_access_key_id and aws_secret_access_key", profile.name()));
  }
  if (!settings.key_id.empty()) return;
  for (const char* const other :
       {"role_arn", "sso_session", "sso_start_url", "credential_process", "credential_source"}) {
    if (profile.value(other) == nullptr) continue;
    refuse_settings(fmt::format("the profile '{}' gets its credentials by {}, which tzmark does not support: {}",
                                profile.name(), other, kExport));
  }
  if (environment("AWS_WEB_IDENTITY_TOKEN_FILE") && environment("AWS_ROLE_ARN")) {
    refuse_settings(fmt::format(
        "AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN ask for credentials by web identity, which tzmark does "
        "not support: {}; for requests without credentials, set AWS_NO_SIGN_REQUEST=1",
        kExport));
  }
}

AwsSettings::Addressing addressing_from(const Environment& environment) {
  const auto text = environment("TZMARK_S3_ADDRESSING").value_or("auto");
  if (text == "auto") return AwsSettings::Addressing::kAuto;
  if (text == "path") return AwsSettings::Addressing::kPath;
  if (text == "virtual") return AwsSettings::Addressing::kVirtual;
  refuse_settings(fmt::format("TZMARK_S3_ADDRESSING is '{}', but auto, path or virtual is expected", text));
}

bool has_dot_segment(std::string_view key) {
  while (true) {
    const std::size_t slash = key.find('/');
    const std::string_view segment = key.substr(0, slash);
    if (segment == "." || segment == "..") return true;
    if (slash == key.npos) return false;
    key.remove_prefix(slash + 1);
  }
}

bool is_word(std::string_view text, std::string_view others) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || others.find(c) != others.npos;
  });
}

}  // namespace

bool is_s3_url(std::string_view name) { return url_scheme(name) == "s3"; }

AwsSections parse_aws_file(std::string_view text) {
  AwsSections sections;
  std::map<std::string, std::string>* section = nullptr;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    const std::string_view line = without_blanks(whole);
    if (line.empty() || line.starts_with('#') || line.starts_with(';')) continue;
    if (line.starts_with('[')) {
      std::string name;
      // One blank between words, as in "profile name".
      std::istringstream words{std::string(line.substr(1, line.find(']') - 1))};
      for (std::string word; words >> word;) name += (name.empty() ? "" : " ") + word;
      section = &sections[name];
      continue;
    }
    const std::size_t equals = line.find('=');
    const bool is_nested = whole.front() == ' ' || whole.front() == '\t';
    if (section == nullptr || equals == line.npos || is_nested) continue;
    (*section)[std::string(without_blanks(line.substr(0, equals)))] = without_blanks(line.substr(equals + 1));
  }
  return sections;
}

AwsSettings aws_settings(const Environment& environment) {
  AwsSettings settings;
  const AwsProfile profile(environment);
  set_credentials(environment, profile, settings);
  profile.set(settings.region, "region");
  profile.set(settings.endpoint, "endpoint_url");
  for (const char* const name : {"AWS_DEFAULT_REGION", "AWS_REGION"}) {
    if (const auto region = environment(name)) settings.region = *region;
  }
  for (const char* const name : {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}) {
    if (const auto endpoint = environment(name)) settings.endpoint = *endpoint;
  }
  settings.addressing = addressing_from(environment);
  return settings;
}

S3Location s3_location(std::string_view s3_url, const AwsSettings& settings) {
  const std::string_view name = s3_url.substr(s3_url.find("://") + 3);
  const std::size_t slash = name.find('/');
  const std::string bucket(name.substr(0, slash));
  const std::string_view key = slash == name.npos ? std::string_view() : name.substr(slash + 1);
  if (!is_word(bucket, ".-_")) refuse_settings("invalid URL: s3://BUCKET/KEY is expected");
  if (key.empty()) refuse_settings(fmt::format("invalid URL: s3://{} names no object of the bucket", bucket));
  if (has_dot_segment(key)) {
    refuse_settings(
        "the key has a part . or .. between slashes, which libcurl would resolve: another object would be read");
  }
  if (!is_word(settings.region, "-")) refuse_settings("the region of AWS is not the name of a region");
  Url url;
  if (settings.endpoint.empty()) {
    url.scheme = "https";
    url.host = fmt::format("s3.{}.amazonaws.com{}", settings.region, settings.region.starts_with("cn-") ? ".cn" : "");
  } else {
    const std::string scheme = url_scheme(settings.endpoint);
    if (scheme != "http" && scheme != "https") refuse_settings("the endpoint of S3 is not an http or https URL");
    url = parse_url(settings.endpoint);
    if (!url.query.empty() || !url.user.empty())
      refuse_settings("the endpoint of S3 has more than host, port and path");
  }
  using Addressing = AwsSettings::Addressing;
  // The certificate of AWS is not for a host with further dots.
  const bool is_auto_path = !settings.endpoint.empty() || bucket.find('.') != bucket.npos;
  const bool is_in_path =
      settings.addressing == Addressing::kPath || (settings.addressing == Addressing::kAuto && is_auto_path);
  std::string path = url.path;
  while (path.ends_with('/')) path.pop_back();
  if (is_in_path) {
    path += "/" + bucket;
  } else {
    url.host = bucket + "." + url.host;
  }
  S3Location location;
  url.path = path.empty() ? "/" : path;
  location.bucket_url = url.address();
  url.path = path + "/" + percent_encoded(key, kPlainInKey);
  location.url = url.address();
  if (!settings.key_id.empty() || settings.credentials_endpoint) {
    location.access = {Access::Kind::kAws,
                       settings.key_id,
                       settings.secret_key,
                       settings.session_token,
                       fmt::format("aws:amz:{}:s3", settings.region),
                       settings.credentials_endpoint};
  }
  return location;
}

}  // namespace tzmark
