// The error of a system call that has just failed.
#pragma once

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

#include "tzmark/error.h"

namespace tzmark::bench {

// Makes an error of errno: "mmap: Cannot allocate memory".
inline Error errno_error(ErrorCode code, const std::string& what, std::optional<std::uint64_t> offset = {}) {
  return {code, what + ": " + std::generic_category().message(errno), offset};
}

}  // namespace tzmark::bench
