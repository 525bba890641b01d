// Compares what an adapter decoded with what it should have decoded, both as canonical JSON.
//
// Thread-safety: a pure function.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "runner/json.h"

namespace tzmark::conformance {

struct Difference {
  std::string pointer;           // JSON pointer to the first differing field, in the order of the expected document
  std::optional<Json> expected;  // nothing: the field should not be there
  std::optional<Json> got;       // nothing: the field is missing
};

// Members named in may_omit may be missing; where they are present they are compared like all others. Values of
// different JSON types differ: 2.0 is not 2. Returns nothing if the documents agree.
std::optional<Difference> first_difference(const Json& expected, const Json& got,
                                           const std::set<std::string>& may_omit);

}  // namespace tzmark::conformance
