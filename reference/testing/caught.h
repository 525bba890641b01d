// For tests: the error that an action throws, as a value to compare.
//
// EXPECT_EQ(caught([&] { action(); }), failure(ErrorCode::kHeaderMagic, 0)). GoogleMock's Throws says the same, but
// each use of it costs the compiler most of a second.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "tzmark/error.h"

namespace tzmark {

// How GoogleTest shows a code that was not expected.
inline void PrintTo(ErrorCode code, std::ostream* out) { *out << error_info(code).rule; }

namespace test {

struct Caught {
  std::optional<ErrorCode> code;  // none if nothing was thrown
  std::optional<std::uint64_t> offset;

  friend bool operator==(const Caught&, const Caught&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Caught& caught) {
    if (!caught.code) return out << "no error";
    out << error_info(*caught.code).rule;
    return caught.offset ? out << " at byte " << *caught.offset : out << " at no byte";
  }
};

// Other exceptions than Error pass through, and so fail the test.
inline Caught caught(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.offset()};
  }
  return {};
}

// The message of the Error that an action throws; empty if it throws none.
template <typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

inline Caught failure(ErrorCode code, std::optional<std::uint64_t> offset = std::nullopt) { return {code, offset}; }

}  // namespace test
}  // namespace tzmark
