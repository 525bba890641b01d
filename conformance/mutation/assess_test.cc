// The model's opinion is the corpus's: verdict, features and content of every case.
#include "mutation/assess.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "mutation/choices.h"
#include "runner/difference.h"
#include "runner/file_content.h"
#include "runner/file_format.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::uint64_t kFileBytesMax = 1 << 20;

// Where the corpus knows from its recipe what the file does not tell: that a gap was meant, or that a change
// leaves a choice which others like it do not leave.
const std::map<std::string_view, std::set<std::string>> kKnownBetter = {
    {"tensorizer",
     {"detection-two-layouts-no-terminator", "headers-first-header-length-into-gap",
      "malformed-v5r-metadata-start-moved", "segments-header-length-into-gap"}},
    {"safetensors", {}},
};

Manifest manifest_of(std::string_view format) {
  return load_manifest(std::filesystem::path(std::getenv("TZMARK_BUILD_DIR")) / format_of_name(format).corpus);
}

class AssessTest : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    manifest_ = manifest_of(GetParam());
    load_expected(manifest_, manifest_.cases);
  }

  template <typename Check>
  void for_each_file(const Check& check) const {
    for (const Case& item : manifest_.cases) {
      // Mutated files are small, and the fields of large ones take much memory.
      if (item.operation != Operation::kRead || item.size_bytes > kFileBytesMax) continue;
      // An assessment is of one file.
      if (is_sharded_layout(item.layout)) continue;
      const std::vector<std::byte> file = read_file(manifest_.directory / item.path);
      check(item, assess(format_of_name(GetParam()), file, item.key_hex, item.passphrase));
    }
  }

  Manifest manifest_;
};

// What has to be refused, whatever the reason, is judged alike.
Verdict plain(Verdict verdict) {
  const bool refused = verdict == Verdict::kMalformed || verdict == Verdict::kAuthenticationFailure;
  return refused ? Verdict::kInvalid : verdict;
}

TEST_P(AssessTest, GivesTheVerdictOfEveryCase) {
  std::set<std::string> differ;
  for_each_file([&](const Case& item, const Assessment& assessment) {
    if (plain(item.verdict) != plain(assessment.item.verdict)) differ.insert(item.id);
  });
  EXPECT_EQ(differ, kKnownBetter.at(GetParam()));
}

TEST_P(AssessTest, GivesTheFeaturesOfEveryValidCase) {
  for_each_file([&](const Case& item, const Assessment& assessment) {
    if (item.verdict != Verdict::kValid) return;
    std::vector<std::string> features = item.features;
    std::vector<std::string> got = assessment.item.features;
    // What is large is a matter of the case.
    for (auto* list : {&features, &got}) {
      std::erase_if(*list, [](const std::string& feature) { return feature.starts_with("large-"); });
      std::sort(list->begin(), list->end());
    }
    EXPECT_EQ(got, features) << item.id;
  });
}

TEST_P(AssessTest, ExpectsTheContentOfEveryCase) {
  for_each_file([&](const Case& item, const Assessment& assessment) {
    const std::optional<Json> expected = expected_of(item);
    if (!expected || !assessment.expected) return;
    EXPECT_EQ(first_difference(*expected, *assessment.expected, {}).has_value(), false) << item.id;
  });
}

TEST_P(AssessTest, NamesTheChoiceOfEveryOpenCase) {
  for_each_file([&](const Case& item, const Assessment& assessment) {
    if (!item.choice_name || kKnownBetter.at(GetParam()).contains(item.id)) return;
    EXPECT_TRUE(std::ranges::find(assessment.choices, *item.choice_name) != assessment.choices.end()) << item.id;
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, AssessTest, testing::Values("tensorizer", "safetensors"),
                         [](const auto& each) { return std::string(each.param); });

TEST(OpenChoices, AreThoseOfTheManifests) {
  const auto equal = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.text == b.second.text && a.second.rules == b.second.rules &&
           a.second.tzmark_accepts == b.second.tzmark_accepts &&
           a.second.rejected_by_verify == b.second.rejected_by_verify;
  };
  auto of_manifests = manifest_of("tensorizer").open_choices;
  of_manifests.merge(manifest_of("safetensors").open_choices);
  EXPECT_TRUE(std::ranges::equal(open_choices(), of_manifests, equal));
}

}  // namespace
}  // namespace tzmark::conformance::mutation
