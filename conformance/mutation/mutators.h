// The two kinds of mutations: raw and consistent. See mutated_file.h.
//
// Thread-safety: pure functions but for the random numbers.
#pragma once

#include <string>
#include <vector>

#include "mutation/file_parts.h"
#include "mutation/random.h"
#include "mutation/seeds.h"

namespace tzmark::conformance::mutation {

struct FileChange {
  std::vector<std::byte> bytes;
  FilePart part = FilePart::kFile;
  std::string text;  // what was changed, in words
};

FileChange change_raw(const Seed& seed, Random& random);

// REQUIRES: the seed has a draft.
FileChange change_consistently(const Seed& seed, Random& random);

}  // namespace tzmark::conformance::mutation
