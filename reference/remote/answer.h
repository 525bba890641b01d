// The header of an HTTP answer: its fields, and what they say about a file.
//
// All functions are pure, and take whatever a server may send.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace tzmark {

// "bytes 0-499/1234", where "*" stands for an unknown size, or "bytes */1234" without a range.
struct ContentRange {
  std::optional<std::uint64_t> first, last, total;
};
std::optional<ContentRange> parse_content_range(std::string_view value);

// Parses the seconds or the date of Retry-After. A date in the past is 0. Returns nothing for any other text.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::time_t now);

// Whether a value may be sent back: it is printable, and not too long.
bool can_be_sent(std::string_view value);
// Whether an ETag proves that two answers have the same bytes: it is not one that begins with W/.
bool is_strong(std::string_view etag);

class Answer {
 public:
  // Takes one line as it was received. Returns false if the header is larger than any server needs, so that the answer
  // must be refused. The status line of a further answer (after 100 Continue) begins anew.
  bool add_line(std::string_view line);

  int status() const { return status_; }  // 0 before the first line
  // Whether the empty line at the end of the header is there.
  bool is_complete() const { return is_complete_; }
  const std::optional<ContentRange>& range() const { return range_; }
  const std::optional<std::uint64_t>& content_length() const { return content_length_; }
  // Whether the end of the body is marked, so that a body that was cut is not taken for a whole one.
  bool ends_marked() const { return status_at_least_2_ || is_chunked_ || content_length_.has_value(); }
  // Whatever the server sent, to be compared; empty if there is none.
  const std::string& etag() const { return etag_; }
  const std::string& last_modified() const { return last_modified_; }
  const std::optional<std::string>& retry_after() const { return retry_after_; }
  // The encoding of the body, such as gzip; empty if its bytes are those of the file.
  const std::string& encoding() const { return encoding_; }
  // The region that a bucket is in, as S3 says where a request went to another one.
  const std::string& bucket_region() const { return bucket_region_; }

 private:
  int status_ = 0;
  bool status_at_least_2_ = false, is_chunked_ = false, is_complete_ = false;
  std::size_t header_bytes_ = 0;
  std::optional<ContentRange> range_;
  std::optional<std::uint64_t> content_length_;
  std::string etag_, last_modified_, encoding_, bucket_region_;
  std::optional<std::string> retry_after_;
};

// Returns a status for messages: "HTTP 503 (Service Unavailable)".
std::string status_text(int status);
// Whether a later request may succeed without any change: the server is overloaded, or a gateway has failed.
bool is_temporary_status(int status);
bool is_redirect(int status);

// What tells one state of a remote file from another.
struct Identity {
  std::uint64_t bytes = 0;
  std::string etag, last_modified;

  friend bool operator==(const Identity&, const Identity&) = default;
};

// Returns what shows that an answer with a part of a file is not of that state; empty if nothing does.
std::string difference(const Identity& identity, const Answer& answer);

}  // namespace tzmark
