// Any bytes as what a server of HTTP or S3 sends, as the credentials of its user, as a URL, and as a request to the
// server of the suite.
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "expect.h"
#include "io/url.h"
#include "remote/answer.h"
#include "remote/credentials.h"
#include "remote/s3.h"
#include "remote/upload_text.h"
#include "runner/http_request.h"

namespace {

using namespace tzmark;

// As it comes from the network: lines with their ends.
void read_answer(std::string_view text) {
  Answer answer;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == std::string_view::npos ? text.size() : end + 1);
    if (!answer.add_line(line)) return;
    text.remove_prefix(line.size());
  }
  status_text(answer.status());
  if (answer.retry_after()) parse_retry_after(*answer.retry_after(), std::time_t{1'700'000'000});
  difference({.bytes = 1, .etag = "\"a\"", .last_modified = ""}, answer);
}

void read_values(std::string_view text) {
  if (const auto range = parse_content_range(text); range && range->first && range->last) {
    fuzz::expect(*range->first <= *range->last, "a range begins before it ends");
    fuzz::expect(!range->total || *range->last < *range->total, "a range ends within its file");
  }
  parse_retry_after(text, std::time_t{1'700'000'000});
  parse_expiration(text);
  can_be_sent(text);
  is_strong(text);
  is_role_name(text);
  if (url_scheme(text) == "s3") fuzz::accepts([&] { s3_location(text, AwsSettings{}); }, {ErrorClass::kUsage});
  fuzz::accepts([&] { parse_credentials(text); }, {ErrorClass::kEnvironment});
  parse_aws_file(text);
  for (const std::string_view element : {"UploadId", "Code", "Message", "ETag"}) xml_text(text, element);
  tells_completion(text);
}

// A shorter one may be part of anything.
constexpr std::size_t kSecretBytesMin = 4;

// As it is in a URL whose scheme is cut off; "" if there is none.
std::string_view password_of(std::string_view rest) {
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const std::size_t colon = authority.find(':'), at = authority.rfind('@');
  return colon < at && at != authority.npos ? authority.substr(colon + 1, at - colon - 1) : std::string_view();
}

void read_url(std::string_view text) {
  without_secrets(text);
  if (const std::string scheme = url_scheme(text); scheme != "http" && scheme != "https") return;
  fuzz::accepts(
      [&] {
        const Url url = parse_url(text);
        const Url again = parse_url(url.address());
        fuzz::expect(again.address() == url.address(), "a URL that was read is the same again");
        fuzz::expect(again.user.empty() && again.password.empty(), "an address has no user");
        last_part_of_url(text);
        const std::string shown = without_secrets(text);
        const std::string_view rest = text.substr(text.find("://") + 3);
        const std::string_view secret = password_of(rest);
        if (secret.size() >= kSecretBytesMin && rest.find(secret) == rest.rfind(secret)) {
          fuzz::expect(shown.find(secret, shown.find("://")) == shown.npos, "a message has no password");
        }
        // Behind a blank or a quotation mark may be other text of the message, with an "@" of its own.
        if (text.find_first_of(" \t\n\"'") == text.npos) {
          const Url again_shown = parse_url(shown);
          fuzz::expect(again_shown.user.empty() && again_shown.password.empty(), "a message has no user");
        }
      },
      {ErrorClass::kUsage});
}

void answer_request(std::string_view text) {
  using namespace conformance;
  const HttpFile file{.content = "0123456789", .etag = "\"e\"", .has_ranges = true};
  if (const auto range = parse_http_range(text); range && range->last) {
    fuzz::expect(range->first <= *range->last, "a requested range begins before it ends");
  }
  const auto request = parse_http_request(text);
  if (!request) return;
  const HttpAnswer answer = answer_about(*request, file);
  fuzz::expect(!answer.has_content() || answer.begin + answer.body.size() <= file.content.size(),
               "what is sent lies within the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_answer(text);
  read_values(text);
  read_url(text);
  answer_request(text);
  return 0;
}
