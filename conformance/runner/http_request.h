// Requests of HTTP/1.1 as a reader of URLs sends them, and the answers that RFC 9110 and 9112 require.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tzmark::conformance {

// The head of a request: what an answer depends on.
struct HttpRequest {
  std::string method;
  std::string target;  // as it was sent, such as "/a/b.tensors"
  bool keeps_connection = true;
  std::optional<std::string> range = {};
  std::optional<std::string> if_match = {};
  std::optional<std::string> if_range = {};
};

// Returns nothing for a text that is no head, or one of a request with a body. head ends with an empty line.
std::optional<HttpRequest> parse_http_request(std::string_view head);

// Bytes of a file: from first to last, or the last suffix_bytes.
struct HttpRange {
  std::uint64_t first = 0;
  std::optional<std::uint64_t> last;
  std::optional<std::uint64_t> suffix_bytes;
};

// Returns nothing for a value that a server has to ignore, and for several ranges, which it may ignore. Numbers beyond
// 64 bits count as the largest one.
std::optional<HttpRange> parse_http_range(std::string_view value);

// A file that is served. Does not own its content.
struct HttpFile {
  std::string_view content;
  std::string etag;  // with its quotes
  bool has_ranges = true;
};

struct HttpAnswer {
  int status = 0;
  std::string head;
  std::string_view body;    // a part of the file, or constant text
  std::uint64_t begin = 0;  // of the body in the file

  bool has_content() const { return status == 200 || status == 206; }
};

// Answers GET and HEAD about the file, whatever the target is. For HEAD, the body is not to be sent.
HttpAnswer answer_about(const HttpRequest& request, const HttpFile& file);

// An answer without any of the file. fields: lines that end in CR LF, such as "Retry-After: 0\r\n".
HttpAnswer answer_of_status(int status, bool keeps_connection = false, std::string_view fields = {});

// The text with all but letters, digits and "-._~" as percent signs and digits, so that it is one part of a path.
std::string percent_encoded(std::string_view text);

}  // namespace tzmark::conformance
