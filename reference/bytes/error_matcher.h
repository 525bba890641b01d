// For tests: a matcher of what an action throws.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <ostream>

#include "tzmark/error.h"

namespace tzmark {

// How GoogleTest shows a code that was not expected.
inline void PrintTo(ErrorCode code, std::ostream* out) { *out << error_info(code).rule; }

namespace test {

// EXPECT_THAT([&] { action(); }, throws_error(ErrorCode::kHeaderMagic, 0)): an Error of this code, at this byte of the
// file, or at none.
inline auto throws_error(ErrorCode code, std::optional<std::uint64_t> offset = std::nullopt) {
  using ::testing::AllOf, ::testing::Property;
  return ::testing::Throws<Error>(
      AllOf(Property("code", &Error::code, code), Property("offset", &Error::offset, offset)));
}

}  // namespace test
}  // namespace tzmark
