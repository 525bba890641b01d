// Valid neighbours of valid files: unusual content at the limits of the format and of the types that readers keep
// numbers in. They are mutations by themselves, since some readers refuse or misread them, and the base of others, so
// that these meet files of several tensors, long names and much data.
//
// Thread-safety: pure functions but for the random numbers.
#pragma once

#include <string>

#include "mutation/file_parts.h"
#include "mutation/random.h"
#include "mutation/seeds.h"

namespace tzmark::conformance::mutation {

struct Neighbour {
  Draft draft;
  FilePart part = FilePart::kFile;
  std::string text;  // what was changed, in words
};

// Most are valid. The draft refers to the seed. REQUIRES: the seed has a draft. Throws std::runtime_error if there is
// no memory to derive a key.
Neighbour make_neighbour(const Seed& seed, Random& random);

}  // namespace tzmark::conformance::mutation
