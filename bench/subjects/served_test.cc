// What curl is asked for, and what its answer has to be. tests/remote/bench_test.py runs it all against a server.
#include "subjects/served.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Served, CurlIsAskedForEachRangeOnce) {
  const std::string text = curl_configuration("http://h/f", 10, 4, 3);
  EXPECT_THAT(text, HasSubstr("parallel-max = 3\n"));
  EXPECT_THAT(text, HasSubstr("range = \"0-3\""));
  EXPECT_THAT(text, HasSubstr("range = \"4-7\""));
  EXPECT_THAT(text, HasSubstr("range = \"8-9\""));
  EXPECT_THAT(text, Not(HasSubstr("range = \"10-")));
}

TEST(Served, AUrlCannotEndItsOption) {
  const std::string text = curl_configuration("http://h/a\"b\\c\noutput = \"/etc/passwd", 4, 4, 1);
  EXPECT_THAT(text, HasSubstr(R"(url = "http://h/a\"b\\c%0Aoutput%20=%20\"/etc/passwd")"));
  EXPECT_THAT(text, Not(HasSubstr("\noutput = \"/etc")));
}

TEST(Served, EachRangeHasToArrive) {
  check_curl_output("206 4\n206 4\n206 2\n", 10, 4);
  EXPECT_THROW(check_curl_output("206 4\n206 4\n", 10, 4), Error);
  EXPECT_THROW(check_curl_output("206 4\n206 6\n", 10, 4), Error);
  EXPECT_THROW(check_curl_output("206 4\n206 4\n206 3\n", 10, 4), Error);
  EXPECT_THROW(check_curl_output("200 10\n", 10, 10), Error);
  EXPECT_THROW(check_curl_output("", 10, 4), Error);
  try {
    check_curl_output("302 0\n", 10, 10);
    FAIL() << "a redirect is no range";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  }
}

}  // namespace
}  // namespace tzmark::bench
