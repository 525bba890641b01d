// Readers with a habit that is about no single rule or field: they keep keys or data under less than what these depend
// on, or lose bytes at the end of a buffer.
//
// Thread-safety: pure functions and values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/model.h"

namespace tzmark::conformance::planted {

struct Habit {
  std::string about;      // "derived keys", "data of tensors", "plain data", "encrypted data"
  std::string condition;  // what the reader does, such as "known by its CRC32"; unique among those about the same
  // One of these: what the reader keeps a derived key under, or how it changes the content that a right one lists.
  model::KeepsKeyUnder keeps_key_under = nullptr;
  std::function<void(model::Json& document)> lists = nullptr;
};

std::vector<Habit> habits();

}  // namespace tzmark::conformance::planted
