// See remote/easy.h.
#include "remote/easy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bytes/utf8.h"
#include "remote/core_dumps.h"
#include "remote/credential_source.h"
#include "tzmark/version.h"

namespace tzmark {
namespace {

Access with_current_credentials(const Access& stated, bool is_interruptible) {
  TemporaryCredentials credentials = current_credentials(*stated.endpoint, is_interruptible);
  Access access = stated;
  access.user = std::move(credentials.key_id);
  access.password = std::move(credentials.secret_key);
  access.session_token = std::move(credentials.session_token);
  return access;
}

}  // namespace

std::string refused_option(CURLoption option, CURLcode code) {
  return fmt::format("libcurl refuses option {}: {}", static_cast<int>(option), curl().easy_strerror(code));
}

bool is_repeatable(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_WRITE_ERROR:
      return true;
    default:
      return false;
  }
}

// Only texts that name hosts and certificates, and no more of an address: that of a proxy, for example, may have a
// password.
std::string curl_problem(CURLcode code, std::string_view text) {
  const bool is_of_tls =
      code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
  const bool is_plain = (code == CURLE_COULDNT_RESOLVE_HOST && text.starts_with("Could not resolve host: ")) ||
                        (code == CURLE_COULDNT_CONNECT && text.starts_with("Failed to connect to "));
  if ((is_of_tls || is_plain) && !text.empty()) return printable(text);
  const std::string name = curl().easy_strerror(code);
  return code == CURLE_COULDNT_CONNECT && text.find("roxy") != text.npos ? name + ": the proxy cannot be used" : name;
}

std::string s3_code(std::string_view body) {
  constexpr std::string_view kBegin = "<Code>";
  const std::size_t begin = body.find(kBegin);
  if (begin == body.npos) return {};
  const std::string_view rest = body.substr(begin + kBegin.size());
  const std::string_view code = rest.substr(0, rest.find('<'));
  const auto is_letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (code.size() > 64 || !std::ranges::all_of(code, is_letter_or_digit)) return {};
  return std::string(code);
}

void set_common_options(CURL* easy, const RemoteSettings& settings, const Target& target, char* error_text) {
  set_option(easy, CURLOPT_ERRORBUFFER, error_text);
  set_option(easy, CURLOPT_URL, target.address.c_str());
  set_option(easy, CURLOPT_PATH_AS_IS, 1L);
  if (curl().easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK) {
    // Before 7.85: CURLOPT_PROTOCOLS, which later headers mark as deprecated.
    set_option(easy, static_cast<CURLoption>(181), static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  }
  set_option(easy, CURLOPT_FOLLOWLOCATION, 0L);
  set_option(easy, CURLOPT_NOSIGNAL, 1L);
  set_option(easy, CURLOPT_NOPROGRESS, 1L);
  set_option(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set_option(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  set_option(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(settings.connect_max.count()));
  if (!settings.ca_file.empty()) set_option(easy, CURLOPT_CAINFO, settings.ca_file.c_str());
  if (!settings.ca_directory.empty()) set_option(easy, CURLOPT_CAPATH, settings.ca_directory.c_str());
  if (target.origin.starts_with("https:")) {
    // A library without HTTP/2 refuses it, and uses HTTP/1.1.
    curl().easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
    set_option(easy, CURLOPT_PIPEWAIT, 1L);
  }
  if (!settings.may_use_proxy) set_option(easy, CURLOPT_PROXY, "");
  const std::string user_agent = fmt::format("tzmark/{}", version());
  set_option(easy, CURLOPT_USERAGENT, user_agent.c_str());
}

std::vector<std::string> set_access_options(CURL* easy, const Access& stated, bool is_interruptible) {
  if (stated.kind == Access::Kind::kNone) return {};
  exclude_memory_from_core_dumps();
  const Access access = stated.endpoint ? with_current_credentials(stated, is_interruptible) : stated;
  set_option(easy, CURLOPT_USERNAME, access.user.c_str());
  set_option(easy, CURLOPT_PASSWORD, access.password.c_str());
  if (access.kind == Access::Kind::kBasic) {
    set_option(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    return {};
  }
  set_option(easy, CURLOPT_AWS_SIGV4, access.signature.c_str());
  // Which libcurl 8.14 refuses together. s3_location has refused the paths that this changes.
  set_option(easy, CURLOPT_PATH_AS_IS, 0L);
  if (access.session_token.empty()) return {};
  return {"x-amz-security-token: " + access.session_token};
}

}  // namespace tzmark
