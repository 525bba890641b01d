// What a fuzz target requires: a failure ends the process with its reason, for libFuzzer to keep the input.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "tzmark/error.h"

namespace tzmark::fuzz {

inline void expect(bool holds, std::string_view promise) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: it does not hold that %.*s\n", static_cast<int>(promise.size()), promise.data());
  std::abort();
}

// Whether the action comes to its end. Only what it was given can be to blame where it does not: an Error of a class
// that is not named, and any other exception, is a failure.
template <typename Action>
bool accepts(Action&& action, std::initializer_list<ErrorClass> blamed = {ErrorClass::kFile}) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    expect(std::ranges::find(blamed, error.error_class()) != blamed.end(), error.what());
    return false;
  }
}

}  // namespace tzmark::fuzz
