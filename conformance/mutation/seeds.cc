// The valid files that mutated files are made of; see seeds.h.
#include "mutation/seeds.h"

#include <map>

#include "mutation/format_mutation.h"
#include "runner/errors.h"
#include "runner/explain.h"

namespace tzmark::conformance::mutation {
namespace {

// Upstream's files of v1 to v4 have 262,144 bytes of room in their index. They differ in nothing else.
constexpr std::uint64_t kSeedBytesMax = 16 << 10;

Seed load_seed(const Manifest& manifest, const Case& item) {
  Seed seed{&item, &format_of_layout(item.layout), read_case_file(manifest, item), {}, {}, {}};
  seed.description = seed.format->describe(seed.bytes, secret_of(item), {});
  mutation_of(*seed.format).prepare(seed);
  return seed;
}

}  // namespace

SeedLists load_seeds(const Manifest& manifest, const std::vector<Case>& cases) {
  std::map<std::string, std::vector<Seed>> by_layout;
  for (const Case& item : cases) {
    const bool fits =
        item.operation == Operation::kRead && item.verdict == Verdict::kValid && item.size_bytes <= kSeedBytesMax;
    if (fits && !is_sharded_layout(item.layout)) by_layout[item.layout].push_back(load_seed(manifest, item));
  }
  if (by_layout.empty()) throw UsageError("there is no valid file among the cases to mutate");
  SeedLists seeds;
  for (auto& [layout, list] : by_layout) seeds.push_back(std::move(list));
  return seeds;
}

}  // namespace tzmark::conformance::mutation
