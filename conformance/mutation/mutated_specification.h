// Makes mutated specifications for `encode` of those in the corpus, with the content that the file must have. Most are
// valid and at a limit of the format or of common types; the others no writer may write.
//
// Thread-safety: pure functions and values. Seeds refer to their cases.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/manifest.h"

namespace tzmark::conformance::mutation {

struct SpecificationSeed {
  const Case* item = nullptr;
  Json specification;
  Json expected;
};

struct SpecificationSeeds {
  std::vector<SpecificationSeed> list;
  std::map<std::string, std::string> wire_dtypes;  // of the corpus, by torch's names
};

// Loads the valid and small specifications among the cases; none if the cases have none. Throws EnvironmentError if a
// file differs from the manifest.
SpecificationSeeds load_specification_seeds(const Manifest& manifest, const std::vector<Case>& cases);

struct MutatedSpecification {
  const Case* base = nullptr;
  Json specification;
  // Layout, features, verdict, rules and secret, as in an encode case of the corpus.
  Case item;
  std::optional<Json> expected;  // of valid ones
  std::string change;            // in words
};

// Specification `number` of a run is always the same for the same seeds. REQUIRES: there are seeds.
MutatedSpecification make_mutated_specification(const SpecificationSeeds& seeds, std::uint64_t run_seed,
                                                std::uint64_t number);

}  // namespace tzmark::conformance::mutation
