// Tests of HTTP requests and answers: which heads and ranges are read, and what the answers say.
#include "runner/http_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tzmark::conformance {
namespace {

using ::testing::HasSubstr;

std::string head_with(const std::string& fields) { return "GET /a HTTP/1.1\r\n" + fields + "\r\n"; }

TEST(HttpRequest, IsReadWithItsFields) {
  const auto request = parse_http_request(
      head_with("Host: a\r\nRANGE:bytes=0-1\r\nIf-Match: \"x\"\r\nif-range:  \"y\" \r\nConnection: Close\r\n"));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->target, "/a");
  EXPECT_FALSE(request->keeps_connection);
  EXPECT_EQ(request->range, "bytes=0-1");
  EXPECT_EQ(request->if_match, "\"x\"");
  EXPECT_EQ(request->if_range, "\"y\"");
  EXPECT_TRUE(parse_http_request(head_with(""))->keeps_connection);
  EXPECT_FALSE(parse_http_request("HEAD / HTTP/1.0\r\n\r\n")->keeps_connection);
  EXPECT_TRUE(parse_http_request(head_with("Content-Length: 0\r\n")));
}

TEST(HttpRequest, IsRefusedIfItIsNone) {
  for (const std::string& text :
       {std::string(), std::string("GET /a HTTP/1.1"), std::string("GET /a\r\n\r\n"),
        std::string("GET /a HTTP/2\r\n\r\n"), std::string("GET  HTTP/1.1\r\n\r\n"),
        std::string("GET /a b HTTP/1.1\r\n\r\n"), std::string("G(T /a HTTP/1.1\r\n\r\n"), head_with("no field\r\n"),
        head_with("a : b\r\n"), head_with(" folded: b\r\n"), head_with(": b\r\n"), head_with("a: \x01\r\n"),
        head_with("Content-Length: 5\r\n"), head_with("Transfer-Encoding: chunked\r\n"), head_with("\r\nmore"),
        std::string("GET /a HTTP/1.1\r\nHost: a\r\n")}) {
    EXPECT_FALSE(parse_http_request(text)) << text;
  }
}

TEST(HttpRange, IsReadOrIgnored) {
  const auto both = parse_http_range("bytes=5-9");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->first, 5u);
  EXPECT_EQ(both->last, 9u);
  EXPECT_EQ(parse_http_range("Bytes=5-")->last, std::nullopt);
  EXPECT_EQ(parse_http_range("bytes=-7")->suffix_bytes, 7u);
  EXPECT_EQ(parse_http_range("bytes=99999999999999999999999-")->first, std::numeric_limits<std::uint64_t>::max());
  for (const char* ignored : {"", "bytes", "bytes=", "bytes=-", "bytes=a-1", "bytes=1-a", "bytes=9-5", "bytes=0-1,3-4",
                              "lines=0-1", "bytes=+1-2", "bytes=1"}) {
    EXPECT_FALSE(parse_http_range(ignored)) << ignored;
  }
}

struct RangeRow {
  std::string fields;
  int status;
  std::string body;
  std::string says = {};
};

TEST(HttpAnswer, HasThePartThatWasAskedFor) {
  const HttpFile file{.content = "0123456789", .etag = "\"e\""};
  for (const RangeRow& row : {
           RangeRow{"", 200, "0123456789", "Content-Length: 10\r\n"},
           RangeRow{"Range: bytes=2-4\r\n", 206, "234", "Content-Range: bytes 2-4/10\r\n"},
           RangeRow{"Range: bytes=2-\r\n", 206, "23456789", "Content-Range: bytes 2-9/10\r\n"},
           RangeRow{"Range: bytes=-3\r\n", 206, "789", "Content-Range: bytes 7-9/10\r\n"},
           RangeRow{"Range: bytes=-30\r\n", 206, "0123456789", "Content-Range: bytes 0-9/10\r\n"},
           RangeRow{"Range: bytes=8-18446744073709551615\r\n", 206, "89", "Content-Length: 2\r\n"},
           RangeRow{"Range: bytes=10-\r\n", 416, "This is not the file.\n", "Content-Range: bytes */10\r\n"},
           RangeRow{"Range: bytes=-0\r\n", 416, "This is not the file.\n"},
           RangeRow{"Range: bytes=4-2\r\n", 200, "0123456789"},
           RangeRow{"If-Match: \"e\"\r\nRange: bytes=0-0\r\n", 206, "0", "ETag: \"e\"\r\n"},
           RangeRow{"If-Match: \"d\", \"e\"\r\n", 200, "0123456789"},
           RangeRow{"If-Match: *\r\n", 200, "0123456789"},
           RangeRow{"If-Match: \"d\"\r\n", 412, "This is not the file.\n"},
           RangeRow{"If-Match: W/\"e\"\r\n", 412, "This is not the file.\n"},
           RangeRow{"If-Range: \"e\"\r\nRange: bytes=0-0\r\n", 206, "0"},
           RangeRow{"If-Range: \"d\"\r\nRange: bytes=0-0\r\n", 200, "0123456789"},
       }) {
    const HttpAnswer answer = answer_about(parse_http_request(head_with(row.fields)).value(), file);
    EXPECT_EQ(answer.status, row.status) << row.fields;
    EXPECT_EQ(answer.body, row.body) << row.fields;
    EXPECT_THAT(answer.head, HasSubstr(row.says)) << row.fields;
    EXPECT_TRUE(answer.head.ends_with("\r\n\r\n"));
  }
}

TEST(HttpAnswer, OfAnEmptyFileAndWithoutRanges) {
  const HttpRequest ranged = parse_http_request(head_with("Range: bytes=0-3\r\n")).value();
  EXPECT_EQ(answer_about(ranged, {.content = "", .etag = "\"e\""}).status, 416);
  EXPECT_EQ(answer_about(parse_http_request(head_with("")).value(), {.content = "", .etag = "\"e\""}).status, 200);
  const HttpAnswer whole = answer_about(ranged, {.content = "0123", .etag = "\"e\"", .has_ranges = false});
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body, "0123");
  EXPECT_THAT(whole.head, HasSubstr("Accept-Ranges: none\r\n"));
}

TEST(PercentEncoded, IsOnePartOfAPath) {
  EXPECT_EQ(percent_encoded("aZ0-._~.tensors"), "aZ0-._~.tensors");
  EXPECT_EQ(percent_encoded("a b/%\xc3\xa9?"), "a%20b%2F%25%C3%A9%3F");
}

}  // namespace
}  // namespace tzmark::conformance
