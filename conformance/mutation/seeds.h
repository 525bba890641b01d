// The right files that mutated files are made of.
//
// Thread-safety: values; the function may be called from several threads. A seed refers to the case that it is of.
#pragma once

#include <vector>

#include "mutation/consistent.h"
#include "runner/manifest.h"

namespace tzmark::conformance::mutation {

struct Seed {
  const Case* item = nullptr;
  std::vector<std::byte> bytes;
  model::Description description;
  std::optional<Draft> draft;  // nothing where the file cannot be taken apart and put together again
  std::vector<Site> sites;     // of the draft
};

// The valid .tensors files among the cases that are small enough to make thousands of, by layout: each layout gives as
// many mutated files as any other. Throws EnvironmentError if a file is not the one that the manifest means.
std::vector<std::vector<Seed>> load_seeds(const Manifest& manifest, const std::vector<Case>& cases);

}  // namespace tzmark::conformance::mutation
