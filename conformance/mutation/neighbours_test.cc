// Valid neighbours are valid, and reach the limits of the format.
#include "mutation/neighbours.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "mutation/assess.h"
#include "mutation/odd_values.h"
#include "testing/test_seeds.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::uint64_t kNeighbours = 6000;

// What was met in valid neighbours.
struct Met {
  std::size_t made = 0;
  std::size_t valid = 0;
  std::set<std::size_t> name_bytes;
  std::set<std::size_t> tensors;
  std::set<std::size_t> dims;
  std::set<std::string> dtypes;
  std::set<std::uint64_t> lengths;
  std::set<std::uint64_t> module_indices;
  std::set<std::uint64_t> positions;
  std::set<std::string> hash_counts;
  std::set<std::string> mac_counts;
  bool same_crc32 = false;  // of two tensors with other data
  bool two_derivations = false;
};

void meet(const Assessment& assessment, Met& met) {
  const Json& tensors = (*assessment.expected)["tensors"];
  met.tensors.insert(tensors.size());
  std::map<std::string, std::string> by_crc32;
  for (const Json& tensor : tensors) {
    for (const Json& part : tensor["path"]) {
      if (part.is_string()) met.name_bytes.insert(part.get_ref<const std::string&>().size());
      if (part.is_number()) met.positions.insert(part.get<std::uint64_t>());
    }
    met.dims.insert(tensor["shape"].size());
    met.dtypes.insert(tensor["wire_dtype"].get<std::string>());
    met.lengths.insert(tensor["data_length"].get<std::uint64_t>());
    met.module_indices.insert(tensor["module_index"].get<std::uint64_t>());
    if (tensor["crc32_field"].is_null()) continue;
    const auto [known, is_new] = by_crc32.emplace(tensor["crc32_field"].get<std::string>(), tensor["sha256"].dump());
    met.same_crc32 = met.same_crc32 || (!is_new && known->second != tensor["sha256"].dump());
  }
  std::set<std::string> opslimits;
  for (const model::Field& field : assessment.description.fields) {
    if (field.name == "hash_count") met.hash_counts.insert(field.value);
    if (field.name == "mac_count") met.mac_counts.insert(field.value);
    if (field.name == "opslimit" && assessment.item.passphrase) opslimits.insert(field.value);
  }
  met.two_derivations = met.two_derivations || opslimits.size() > 1;
}

const Met& met() {
  static const Met all = [] {
    Met met;
    for (std::uint64_t i = 0; i < kNeighbours; ++i) {
      Random random(5, i);
      const Seed& seed = random.pick(random.pick(test_seeds().lists));
      if (!seed.draft) continue;
      const Neighbour neighbour = make_neighbour(seed, random);
      const auto bytes = put_together(neighbour.draft);
      const Assessment assessment = assess(*seed.format, bytes, seed.item->key_hex, seed.item->passphrase);
      ++met.made;
      const Verdict verdict = assessment.item.verdict;
      const bool may_be_read = verdict == Verdict::kValid || verdict == Verdict::kImplementationDefined;
      if (!may_be_read || !assessment.expected) continue;
      ++met.valid;
      meet(assessment, met);
    }
    return met;
  }();
  return all;
}

TEST(Neighbours, AreValid) {
  EXPECT_GT(met().made, kNeighbours / 2);
  EXPECT_GT(met().valid, met().made * 85 / 100);
}

TEST(Neighbours, ReachLimits) {
  for (const std::size_t bytes : {127, 128, 255, 256, 32767, 32768, 65535}) {
    EXPECT_THAT(met().name_bytes, testing::Contains(bytes));
  }
  for (const std::size_t count : {2, 3, 17, 128, 256, 257}) EXPECT_THAT(met().tensors, testing::Contains(count + 1));
  for (const std::size_t count : {9, 33, 128, 255}) EXPECT_THAT(met().dims, testing::Contains(count));
  for (const char* count : {"8", "127", "128", "255"}) EXPECT_THAT(met().hash_counts, testing::Contains(count));
  for (const char* count : {"255", "256", "257"}) EXPECT_THAT(met().mac_counts, testing::Contains(count));
  EXPECT_THAT(met().module_indices, testing::Contains(65535u));
  EXPECT_THAT(met().positions, testing::Contains(k53 + 1));
  EXPECT_GE(*met().lengths.rbegin(), std::uint64_t{1} << 20);
  for (const std::uint64_t length : {4097, 4101, 65537, 65541}) {
    EXPECT_THAT(met().lengths, testing::Contains(length));
  }
}

TEST(Neighbours, ReachUnusualContent) {
  for (const char* dtype : {"<M8", ">m8", "<M8[as]", "<m8[W]", "|S300", ">c16", "<U1"}) {
    EXPECT_THAT(met().dtypes, testing::Contains(dtype));
  }
  for (const std::size_t bytes : {127, 128, 167, 255}) {
    EXPECT_TRUE(std::ranges::any_of(met().dtypes, [&](const std::string& text) { return text.size() == bytes; }))
        << bytes;
  }
  EXPECT_TRUE(met().same_crc32);
  EXPECT_TRUE(met().two_derivations);
}

}  // namespace
}  // namespace tzmark::conformance::mutation
