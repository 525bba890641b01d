// Headers of HTTP answers, as servers send them and as they must not be.
#include "remote/answer.h"

#include <gtest/gtest.h>

namespace tzmark {
namespace {

using std::chrono::seconds;

Answer answer_of(std::initializer_list<const char*> lines) {
  Answer answer;
  for (const char* const line : lines) EXPECT_TRUE(answer.add_line(std::string(line) + "\r\n"));
  return answer;
}

TEST(ContentRange, IsParsed) {
  const auto range = parse_content_range("bytes 5-9/100");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 5U);
  EXPECT_EQ(range->last, 9U);
  EXPECT_EQ(range->total, 100U);
  EXPECT_EQ(parse_content_range(" BYTES 0-0/1 ")->last, 0U);
  EXPECT_EQ(parse_content_range("bytes 0-9/*")->total, std::nullopt);
  EXPECT_EQ(parse_content_range("bytes */7")->total, 7U);
  EXPECT_EQ(parse_content_range("bytes */7")->first, std::nullopt);
}

TEST(ContentRange, IsRefused) {
  for (const char* const value :
       {"", "bytes", "bytes ", "5-9/100", "bytes 5-9", "bytes 9-5/100", "bytes 5-100/100", "bytes -9/100",
        "bytes 5-/100", "bytes */*", "bytes 5-9/x", "bytes +5-9/100", "bytes 5 - 9/100",
        "bytes 0-18446744073709551616/*", "items 5-9/100", "bytes 5-9/100/200", "bytes 5-9/"}) {
    EXPECT_FALSE(parse_content_range(value)) << value;
  }
}

TEST(RetryAfter, IsANumberOrADate) {
  constexpr std::time_t kNow = 784111777;  // Sun, 06 Nov 1994 08:49:37 GMT
  EXPECT_EQ(parse_retry_after("120", kNow), seconds(120));
  EXPECT_EQ(parse_retry_after(" 0 ", kNow), seconds(0));
  EXPECT_EQ(parse_retry_after("99999999999999", kNow), seconds(1'000'000'000));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:50:37 GMT", kNow), seconds(60));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", kNow), seconds(0));
  EXPECT_EQ(parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", kNow), seconds(1'000'000'000));
  for (const char* const value : {"", "soon", "-1", "1.5", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Nov 1994"}) {
    EXPECT_EQ(parse_retry_after(value, kNow), std::nullopt) << value;
  }
}

TEST(Answer, IsCompleteAfterTheEmptyLine) {
  Answer answer = answer_of({"HTTP/1.1 206 Partial Content", "ETag: \"abc\""});
  EXPECT_FALSE(answer.is_complete());
  EXPECT_TRUE(answer.add_line("\r\n"));
  EXPECT_TRUE(answer.is_complete());
  // The header of the next answer, after 100 Continue.
  EXPECT_TRUE(answer.add_line("HTTP/1.1 200 OK\r\n"));
  EXPECT_FALSE(answer.is_complete());
}

TEST(Answer, HasTheIdentityWhateverItsBytes) {
  const std::string long_etag = "\"" + std::string(5000, 'x') + "\"";
  for (const std::string& etag : {long_etag, std::string("\"\xE9\"")}) {
    const Answer answer = answer_of({"HTTP/1.1 206 Partial Content", ("ETag: " + etag).c_str(), ""});
    EXPECT_EQ(answer.etag(), etag);
    EXPECT_TRUE(is_strong(answer.etag()));
    EXPECT_FALSE(can_be_sent(answer.etag()));
    EXPECT_EQ(difference({.bytes = 1, .etag = etag, .last_modified = ""}, answer), "");
    EXPECT_NE(difference({.bytes = 1, .etag = etag + "x", .last_modified = ""}, answer), "");
  }
}

TEST(Answer, HasFields) {
  const Answer answer = answer_of({"HTTP/1.1 206 Partial Content", "content-RANGE: bytes 0-1/2", "Content-Length: 2",
                                   "ETag: \"abc\"", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After: 3",
                                   "x-amz-bucket-region: eu-west-1", "Content-Encoding: identity", ""});
  EXPECT_EQ(answer.status(), 206);
  EXPECT_EQ(answer.range()->total, 2U);
  EXPECT_EQ(answer.content_length(), 2U);
  EXPECT_EQ(answer.etag(), "\"abc\"");
  EXPECT_EQ(answer.last_modified(), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(answer.retry_after(), "3");
  EXPECT_EQ(answer.bucket_region(), "eu-west-1");
  EXPECT_EQ(answer.encoding(), "");
}

TEST(Answer, BeginsAnewAfterAnInterimOne) {
  const Answer answer = answer_of({"HTTP/1.1 103 Early Hints", "ETag: \"early\"", "", "HTTP/2 404", "a: b"});
  EXPECT_EQ(answer.status(), 404);
  EXPECT_EQ(answer.etag(), "");
}

TEST(Answer, SaysWhetherItsEndIsMarked) {
  EXPECT_FALSE(answer_of({"HTTP/1.1 200 OK"}).ends_marked());
  EXPECT_FALSE(answer_of({"HTTP/1.0 200 OK", "Content-Length: two"}).ends_marked());
  EXPECT_TRUE(answer_of({"HTTP/1.1 200 OK", "Content-Length: 2"}).ends_marked());
  EXPECT_TRUE(answer_of({"HTTP/1.1 200 OK", "Transfer-Encoding: gzip, Chunked"}).ends_marked());
  EXPECT_TRUE(answer_of({"HTTP/2 200"}).ends_marked());
}

TEST(Answer, TellsWhatMustNotBeSentBack) {
  EXPECT_TRUE(can_be_sent("\"a b\""));
  for (const std::string& odd :
       {std::string(), std::string("\"a\x01\""), std::string("a\r\nb"), std::string(2000, 'x')}) {
    EXPECT_FALSE(can_be_sent(odd)) << odd;
  }
  EXPECT_EQ(answer_of({"HTTP/1.1 301 Moved", "x-amz-bucket-region: a\x01"}).bucket_region(), "");
}

TEST(Answer, HasABoundedHeader) {
  Answer answer;
  EXPECT_TRUE(answer.add_line("HTTP/1.1 200 OK\r\n"));
  const std::string line = "X: " + std::string(1000, 'x');
  int taken = 0;
  while (taken < 1000 && answer.add_line(line)) ++taken;
  EXPECT_GT(taken, 100);
  EXPECT_LT(taken, 300);
  // Also where interim answers follow each other.
  EXPECT_FALSE(answer.add_line("HTTP/1.1 100 Continue\r\n"));
}

TEST(Status, IsTemporaryOrNot) {
  for (const int status : {408, 425, 429, 500, 502, 503, 504}) EXPECT_TRUE(is_temporary_status(status)) << status;
  for (const int status : {0, 200, 206, 301, 400, 401, 403, 404, 410, 412, 416, 501, 505}) {
    EXPECT_FALSE(is_temporary_status(status)) << status;
  }
  EXPECT_EQ(status_text(503), "HTTP 503 (Service Unavailable)");
  EXPECT_EQ(status_text(299), "HTTP 299");
}

TEST(Identity, TellsAChange) {
  const auto answer = [](const char* etag, const char* date, const char* range = "Content-Range: bytes 0-1/10") {
    return answer_of({"HTTP/1.1 206 Partial Content", etag, date, range});
  };
  constexpr const char* kDate = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
  constexpr const char* kLater = "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT";
  const Identity strong{10, "\"a\"", "Sun, 06 Nov 1994 08:49:37 GMT"};
  EXPECT_EQ(difference(strong, answer("ETag: \"a\"", kDate)), "");
  EXPECT_EQ(difference(strong, answer("ETag: \"a\"", kLater)), "");
  EXPECT_NE(difference(strong, answer("ETag: \"b\"", kDate)), "");
  EXPECT_NE(difference(strong, answer("X: y", kDate)), "");
  EXPECT_NE(difference(strong, answer("ETag: \"a\"", kDate, "Content-Range: bytes 0-1/11")), "");
  EXPECT_EQ(difference(strong, answer("ETag: \"a\"", kDate, "Content-Range: bytes 0-1/*")), "");
  const Identity weak{10, "W/\"a\"", "Sun, 06 Nov 1994 08:49:37 GMT"};
  EXPECT_EQ(difference(weak, answer("ETag: W/\"a\"", kDate)), "");
  EXPECT_NE(difference(weak, answer("ETag: W/\"a\"", kLater)), "");
  const Identity none{10, "", ""};
  EXPECT_EQ(difference(none, answer("ETag: \"a\"", kDate)), "");
}

}  // namespace
}  // namespace tzmark
