// Parses element types, and finds the rule that an invalid one breaks.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "model/model.h"

namespace tzmark::conformance::model {

struct Dtype {
  std::uint64_t item_bytes = 0;        // 0: unknown
  std::optional<std::string> torch;    // torch's name without "torch."; nothing for foreign types
  bool opaque = false;                 // a type that numpy lacks
  std::string writers_prefix = {};     // not empty: the required beginning in writers
  std::string_view broken_rule = {};   // empty: the dtype is valid
  Clause clause = {};                  // of that rule
  std::uint64_t right_item_bytes = 0;  // of TZR-DTY-004
};

Dtype dtype_of(std::string_view text);

// The first values of the data, for display.
std::string data_summary(std::string_view dtype, Bytes data);

}  // namespace tzmark::conformance::model
