// The valid files that mutated files are made of.
//
// Thread-safety: values; the function may be called from several threads. A seed refers to the case that it is of.
#pragma once

#include <vector>

#include "mutation/consistent.h"
#include "runner/file_format.h"
#include "runner/manifest.h"

namespace tzmark::conformance::mutation {

struct Seed {
  const Case* item = nullptr;
  const FileFormat* format = nullptr;
  std::vector<std::byte> bytes;
  model::Description description;
  std::optional<Draft> draft;  // of tensorizer's format, if the file can be taken apart and put together again
  std::vector<Site> sites;     // of the draft
};

// By layout.
using SeedLists = std::vector<std::vector<Seed>>;

// Loads the valid .tensors files among the cases that are small enough to mutate by the thousand, by layout: each
// layout gives equally many mutated files. Throws EnvironmentError if a file differs from the manifest, and UsageError
// if there is none.
SeedLists load_seeds(const Manifest& manifest, const std::vector<Case>& cases);

}  // namespace tzmark::conformance::mutation
