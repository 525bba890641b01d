// Tests of how the server of an input mode behaves: all ways are chosen, always the same for a file, and faults end.
#include "runner/http_behaviour.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

std::string digits_of(int number) {
  const std::string text = std::to_string(number);
  return sha256_of(std::as_bytes(std::span(text)));
}

TEST(HttpBehaviour, IsChosenByTheFile) {
  std::map<std::string, int> counts;
  for (int i = 0; i < 1600; ++i) {
    const std::string digits = digits_of(i);
    ++counts[describe(behaviour_for(digits, false, 1))];
    ++counts[describe(behaviour_for(digits, true, 1))];
    EXPECT_EQ(behaviour_for(digits, false, 1).fault, HttpFault::kNone);
    EXPECT_NE(behaviour_for(digits, true, 1).fault, HttpFault::kNone);
  }
  EXPECT_EQ(counts.size(), 4u + 16u);
  for (const auto& [behaviour, count] : counts) EXPECT_GT(count, 1600 / 32) << behaviour;
  EXPECT_GT(counts["no ranges, in small pieces"], 300);
}

HttpAnswer part_at(std::uint64_t begin, std::string_view body) {
  return {.status = 206, .head = {}, .body = body, .begin = begin};
}

TEST(HttpFaults, EndForEachRange) {
  const HttpRequest get{.method = "GET", .target = {}};
  const std::string body(100, 'x');
  for (const unsigned times : {1u, 2u}) {
    HttpFaults faults({.fault = HttpFault::kUnavailable, .faults_per_range = times});
    for (unsigned i = 0; i < times; ++i) EXPECT_EQ(faults.next(get, part_at(0, body)), HttpFault::kUnavailable);
    EXPECT_EQ(faults.next(get, part_at(0, body)), HttpFault::kNone);
    // A part of it, and another range.
    EXPECT_EQ(faults.next(get, part_at(50, body)), HttpFault::kNone);
    EXPECT_EQ(faults.next(get, part_at(100, body)), HttpFault::kUnavailable);
  }
}

TEST(HttpFaults, AreFew) {
  const HttpRequest get{.method = "GET", .target = {}};
  HttpFaults faults({.fault = HttpFault::kReset, .faults_per_range = 2});
  int failed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    for (int repeat = 0; repeat < 3; ++repeat) failed += faults.next(get, part_at(i, "x")) != HttpFault::kNone;
  }
  EXPECT_EQ(failed, 8);
}

TEST(HttpFaults, LeaveOtherAnswersAlone) {
  const HttpRequest get{.method = "GET", .target = {}};
  const HttpRequest head{.method = "HEAD", .target = {}};
  HttpFaults cut({.fault = HttpFault::kCut});
  EXPECT_EQ(cut.next(get, part_at(0, "")), HttpFault::kNone);
  EXPECT_EQ(cut.next(head, part_at(0, "xx")), HttpFault::kNone);
  EXPECT_EQ(cut.next(get, part_at(0, "x")), HttpFault::kCut);
  HttpFaults busy({.fault = HttpFault::kTooManyRequests});
  EXPECT_EQ(busy.next(get, answer_of_status(416)), HttpFault::kNone);
  EXPECT_EQ(busy.next(head, part_at(0, "xx")), HttpFault::kTooManyRequests);
  EXPECT_EQ(busy.next(head, part_at(0, "xx")), HttpFault::kNone);
  EXPECT_EQ(busy.next(get, part_at(0, "xx")), HttpFault::kTooManyRequests);
  HttpFaults none({});
  EXPECT_EQ(none.next(get, part_at(0, "xx")), HttpFault::kNone);
}

}  // namespace
}  // namespace tzmark::conformance
