// The two ways to change a file: raw, and mended. See mutate.h.
//
// Thread-safety: pure functions but for the random numbers.
#pragma once

#include <string>
#include <vector>

#include "parts.h"
#include "random.h"
#include "seeds.h"

namespace tzmark::conformance::mutation {

struct Change {
  std::vector<std::byte> bytes;
  Part part = Part::kFile;
  std::string text;  // what was changed, in words
};

Change change_raw(const Seed& seed, Random& random);

// REQUIRES: the seed has a draft.
Change change_mended(const Seed& seed, Random& random);

}  // namespace tzmark::conformance::mutation
