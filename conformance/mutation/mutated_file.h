// Makes wrong files, and some right ones, of right files: one change each, in a known part.
//
// Half of the mutated files are raw: one field is changed and nothing else, so that whatever depends on it is wrong
// too. The others are consistent: what follows from the change is made right again, lengths, offsets, hashes and MACs
// included, so that only the rule aimed at is broken, if any is.
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
  FilePart part = FilePart::kFile;  // what was changed
  bool consistent = false;
  std::string change;  // in words
};

// MutatedFile `number` of a run is always the same for the same seeds. REQUIRES: there are seeds.
MutatedFile make_mutated_file(const std::vector<std::vector<Seed>>& seeds, std::uint64_t run_seed,
                              std::uint64_t number);

}  // namespace tzmark::conformance::mutation
