// Makes mutated files of valid ones: one change each, in a known part.
// Half of them are raw: one field changes and nothing else, so that everything that depends on it is wrong, too. The
// others are consistent: lengths, offsets, hashes and MACs follow the change, so that at most one rule is broken.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "mutation/file_parts.h"
#include "mutation/seeds.h"

namespace tzmark::conformance::mutation {

struct MutatedFile {
  const Seed* seed = nullptr;
  std::vector<std::byte> bytes;
  std::optional<std::string> key_hex;
  std::optional<std::string> passphrase;
  FilePart part = FilePart::kFile;  // the changed part
  bool consistent = false;
  std::string change;  // in words
};

// MutatedFile `number` of a run is always the same for the same seeds. REQUIRES: there are seeds.
MutatedFile make_mutated_file(const SeedLists& seeds, std::uint64_t run_seed, std::uint64_t number);

}  // namespace tzmark::conformance::mutation
