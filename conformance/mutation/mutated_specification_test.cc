// Mutated specifications are the same in every run, say what is required, and reach every layout and type.
#include "mutation/mutated_specification.h"

#include <gmock/gmock.h>

#include <set>

#include "testing/test_seeds.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::uint64_t kSpecifications = 1500;

const SpecificationSeeds& seeds() {
  static const SpecificationSeeds loaded = load_specification_seeds(test_seeds().manifest, test_seeds().manifest.cases);
  return loaded;
}

TEST(MutatedSpecification, FollowsTheSeedOfTheRun) {
  std::size_t same = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const MutatedSpecification made = make_mutated_specification(seeds(), 1, i);
    EXPECT_EQ(made.specification, make_mutated_specification(seeds(), 1, i).specification);
    if (made.specification == make_mutated_specification(seeds(), 2, i).specification) ++same;
  }
  EXPECT_LT(same, 10u);
}

TEST(MutatedSpecification, SaysWhatIsRequired) {
  std::size_t valid = 0;
  for (std::uint64_t i = 0; i < kSpecifications; ++i) {
    const MutatedSpecification made = make_mutated_specification(seeds(), 1, i);
    ASSERT_FALSE(made.item.rules.empty());
    ASSERT_EQ(made.item.verdict == Verdict::kValid, made.expected.has_value());
    if (!made.expected) continue;
    ++valid;
    EXPECT_EQ((*made.expected)["layout"], made.item.layout);
    const Json& tensors = made.specification["tensors"];
    const Json& expected = (*made.expected)["tensors"];
    ASSERT_EQ(tensors.size(), expected.size());
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      EXPECT_EQ(tensors[k]["path"], expected[k]["path"]) << i;
      const Json& data = tensors[k]["data"];
      EXPECT_EQ(expected[k]["data_length"], data.is_null() ? Json(0) : data["length"]) << i;
      EXPECT_EQ(expected[k]["sha256"].is_null(), tensors[k]["meta"] == true) << i;
    }
  }
  EXPECT_GT(valid, kSpecifications * 7 / 10);
  EXPECT_LT(valid, kSpecifications);
}

TEST(MutatedSpecification, ReachesEveryLayoutAndType) {
  std::set<std::string> layouts, dtypes, features, rules;
  std::size_t tensors_most = 0;
  std::uint64_t bytes_most = 0;
  for (std::uint64_t i = 0; i < kSpecifications; ++i) {
    const MutatedSpecification made = make_mutated_specification(seeds(), 1, i);
    features.insert(made.item.features.begin(), made.item.features.end());
    if (!made.expected) rules.insert(made.item.rules[0]);
    if (!made.expected) continue;
    layouts.insert(made.item.layout);
    tensors_most = std::max(tensors_most, (*made.expected)["tensors"].size());
    for (const Json& tensor : (*made.expected)["tensors"]) {
      dtypes.insert(tensor["dtype"].get<std::string>());
      bytes_most = std::max(bytes_most, tensor["data_length"].get<std::uint64_t>());
    }
  }
  EXPECT_EQ(layouts.size(), 8u);
  EXPECT_EQ(dtypes.size(), seeds().wire_dtypes.size());
  EXPECT_EQ(rules, (std::set<std::string>{"TZR-NAM-006", "TZR-IDX-002", "TZR-IDX-005", "TZR-IDX-006"}));
  EXPECT_THAT(features, testing::IsSupersetOf({"encryption", "passphrase", "forced-layout", "meta", "opaque-dtype",
                                               "structured-names", "many-dims", "large-claim"}));
  EXPECT_GE(tensors_most, 257u);
  EXPECT_GE(bytes_most, 1u << 20);
}

}  // namespace
}  // namespace tzmark::conformance::mutation
