// Prints formatted lines to standard output for people.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "program/standard_streams.h"

namespace tzmark::bench {

template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  print_lines(fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace tzmark::bench
