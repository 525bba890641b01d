// See remote/credentials.h. Documentation: "Container credential provider" and "IMDS credential provider" in the
// reference guide of AWS SDKs and tools.
#include "remote/credentials.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "bytes/utf8.h"
#include "io/url.h"
#include "remote/text_file.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::size_t kTokenBytesMax = 32 << 10;
constexpr std::size_t kRoleNameBytesMax = 128;
constexpr std::chrono::minutes kRefreshBefore{5};
constexpr const char* kTokenFileVariable = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";

[[noreturn]] void refuse_endpoint(const std::string& why) { throw Error(ErrorCode::kUsage, why); }
[[noreturn]] void refuse_answer(const std::string& why) { throw Error(ErrorCode::kOpenFailed, why); }

bool is_loopback(const std::string& host) {
  in_addr ipv4{};
  if (::inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return ntohl(ipv4.s_addr) >> 24 == 127;
  return host == "localhost" || host == "[::1]";
}

// Credentials must not cross a network in the clear: http leads to this machine, or to what the cloud puts next to it.
Url endpoint_url(const char* variable, const std::string& text, std::initializer_list<std::string_view> http_hosts) {
  const std::string scheme = url_scheme(text);
  if (scheme != "http" && scheme != "https") {
    refuse_endpoint(fmt::format("{} is not an http or https URL", variable));
  }
  Url url;
  try {
    url = parse_url(text);
  } catch (const Error& error) {
    refuse_endpoint(fmt::format("{}: {}", variable, error.message()));
  }
  if (!url.user.empty() || !url.password.empty()) refuse_endpoint(fmt::format("{} has a user name", variable));
  if (scheme == "http" && !is_loopback(url.host) && std::ranges::find(http_hosts, url.host) == http_hosts.end()) {
    refuse_endpoint(fmt::format("{} sends credentials by http to {}: hosts other than loopback, {} need https",
                                variable, url.host, fmt::join(http_hosts, ", ")));
  }
  return url;
}

std::string container_address(const Environment& environment) {
  constexpr const char* kRelative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
  constexpr const char* kFull = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
  if (const auto relative = environment(kRelative)) {
    if (!relative->starts_with('/')) refuse_endpoint(fmt::format("{} does not begin with a slash", kRelative));
    return endpoint_url(kRelative, "http://169.254.170.2" + *relative, {"169.254.170.2"}).address();
  }
  const auto full = environment(kFull);
  if (!full) {
    refuse_endpoint(
        fmt::format("TZMARK_S3_CREDENTIALS is 'container', but neither {} nor {} is set", kRelative, kFull));
  }
  return endpoint_url(kFull, *full, {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"}).address();
}

std::string instance_address(const Environment& environment) {
  constexpr const char* kDisabled = "AWS_EC2_METADATA_DISABLED";
  constexpr const char* kService = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
  if (::strcasecmp(environment(kDisabled).value_or("").c_str(), "true") == 0) {
    refuse_endpoint(fmt::format("TZMARK_S3_CREDENTIALS is 'instance', but {} forbids to ask for them", kDisabled));
  }
  const Url url = endpoint_url(kService, environment(kService).value_or("http://169.254.169.254"),
                               {"169.254.169.254", "[fd00:ec2::254]"});
  if (!url.query.empty()) refuse_endpoint(fmt::format("{} has a query", kService));
  std::string address = url.address();
  while (address.ends_with('/')) address.pop_back();
  return address;
}

}  // namespace

std::optional<CredentialsEndpoint> credentials_endpoint(const Environment& environment) {
  const auto asked = environment(kCredentialsVariable);
  if (!asked) return std::nullopt;
  if (*asked != "container" && *asked != "instance") {
    // Its value may be a key that was put there by mistake.
    refuse_endpoint(fmt::format("{} is neither container nor instance", kCredentialsVariable));
  }
  for (const char* const key : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}) {
    if (!environment(key)) continue;
    refuse_endpoint(
        fmt::format("{} asks for credentials, but {} is set too: unset one of them", kCredentialsVariable, key));
  }
  using Kind = CredentialsEndpoint::Kind;
  if (*asked == "instance") return CredentialsEndpoint{Kind::kInstance, instance_address(environment)};
  CredentialsEndpoint endpoint{Kind::kContainer, container_address(environment)};
  endpoint.token_file = environment(kTokenFileVariable).value_or("");
  if (endpoint.token_file.empty()) endpoint.token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or("");
  return endpoint;
}

std::string authorization_field(const CredentialsEndpoint& endpoint) {
  std::string token = endpoint.token;
  const char* variable = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
  if (!endpoint.token_file.empty()) {
    variable = kTokenFileVariable;
    try {
      token = read_text_file(endpoint.token_file, kTokenBytesMax);
    } catch (const Error& error) {
      refuse_endpoint(fmt::format("cannot read the file that {} names: {}", variable, error.message()));
    }
  } else if (token.empty()) {
    return {};
  }
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (token.empty()) refuse_endpoint(fmt::format("the token of {} is empty", variable));
  if (std::ranges::any_of(token, is_control)) {
    refuse_endpoint(fmt::format("the token of {} has a line break or another control character", variable));
  }
  return "Authorization: " + token;
}

bool is_sendable_token(std::string_view text) {
  return !text.empty() && text.size() <= kTokenBytesMax &&
         std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

bool is_role_name(std::string_view text) {
  return !text.empty() && text.size() <= kRoleNameBytesMax && text != "." && text != ".." &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("+=,.@-_").find(c) != std::string_view::npos;
         });
}

std::optional<std::chrono::system_clock::time_point> parse_expiration(std::string_view text) {
  std::tm date{};
  const std::string whole(text);
  const char* const end = ::strptime(whole.c_str(), "%Y-%m-%dT%H:%M:%S", &date);
  if (end == nullptr) return std::nullopt;
  std::string_view zone = text.substr(static_cast<std::size_t>(end - whole.c_str()));
  // A fraction of a second does not matter.
  if (zone.starts_with('.')) zone.remove_prefix(std::min(zone.find_first_not_of("0123456789", 1), zone.size()));
  if (zone != "Z" && zone != "+00:00") return std::nullopt;
  // The clock counts nanoseconds, and neither the years before 1678 nor those after 2262. What is later than this is as
  // good as never, and what is earlier has been.
  constexpr std::time_t kLatest = 7'258'118'400;  // 2200-01-01
  return std::chrono::system_clock::from_time_t(std::clamp<std::time_t>(::timegm(&date), 0, kLatest));
}

TemporaryCredentials parse_credentials(std::string_view json) {
  // Without exceptions, whose texts quote the answer.
  const auto answer = nlohmann::json::parse(json, nullptr, false);
  if (!answer.is_object()) refuse_answer("the answer is not a JSON object");
  const auto text_of = [&](const char* name) -> std::string {
    const auto found = answer.find(name);
    if (found == answer.end()) refuse_answer(fmt::format("the answer has no {}", name));
    if (!found->is_string() || !is_sendable_token(found->get_ref<const std::string&>())) {
      refuse_answer(fmt::format("the answer has no valid {}", name));
    }
    return *found;
  };
  if (answer.contains("Code") && answer["Code"] != "Success") refuse_answer("the answer has another Code than Success");
  TemporaryCredentials credentials{text_of("AccessKeyId"), text_of("SecretAccessKey"), text_of("Token"), {}};
  const auto expires_at = parse_expiration(text_of("Expiration"));
  if (!expires_at) refuse_answer("the answer has no valid Expiration");
  credentials.expires_at = *expires_at;
  return credentials;
}

std::chrono::system_clock::time_point refresh_time(std::chrono::system_clock::time_point now,
                                                   std::chrono::system_clock::time_point expires_at) {
  return expires_at - std::min<std::chrono::system_clock::duration>(kRefreshBefore, (expires_at - now) / 2);
}

}  // namespace tzmark
