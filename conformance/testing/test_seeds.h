// Seeds of the built corpus, for the tests of mutation.
//
// Thread-safety: the seeds are read-only once they are made.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "mutation/seeds.h"

namespace tzmark::conformance::mutation {

struct TestSeeds {
  Manifest manifest = load_manifest(std::filesystem::path(std::getenv("TZMARK_BUILD_DIR")) / "share/tzmark/corpus");
  SeedLists lists = load_seeds(manifest, manifest.cases);
};

// REQUIRES: TZMARK_BUILD_DIR is set.
inline const TestSeeds& test_seeds() {
  static const TestSeeds seeds;
  return seeds;
}

}  // namespace tzmark::conformance::mutation
