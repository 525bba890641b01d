// Seeds of the built corpus, for the tests of mutation.
//
// Thread-safety: the seeds are read-only once they are made.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "mutation/seeds.h"

namespace tzmark::conformance::mutation {

struct TestSeeds {
  explicit TestSeeds(std::string_view format)
      : manifest(load_manifest(std::filesystem::path(std::getenv("TZMARK_BUILD_DIR")) / format_of_name(format).corpus)),
        lists(load_seeds(manifest, manifest.cases)) {}

  Manifest manifest;
  SeedLists lists;
};

// REQUIRES: TZMARK_BUILD_DIR is set.
inline const TestSeeds& test_seeds() {
  static const TestSeeds seeds("tensorizer");
  return seeds;
}
inline const TestSeeds& safetensors_seeds() {
  static const TestSeeds seeds("safetensors");
  return seeds;
}

}  // namespace tzmark::conformance::mutation
