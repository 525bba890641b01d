// Changed and minimized safetensors files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "model/text.h"
#include "mutation/assess.h"
#include "mutation/minimize.h"
#include "mutation/mutated_file.h"
#include "mutation/safetensors_mutators.h"
#include "runner/file_content.h"
#include "safetensors_model/describe.h"
#include "testing/test_seeds.h"

namespace tzmark::conformance::mutation {
namespace {

using safetensors::Profile;

constexpr std::uint64_t kMutants = 20'000;
constexpr std::uint64_t kFileBytesMax = 1 << 16;

std::vector<std::byte> file_of(std::string_view header, std::string_view data) {
  SafetensorsDraft draft;
  draft.root = split_json(header);
  draft.data = {nullptr, std::as_bytes(std::span(data))};
  return write(draft);
}

bool is_valid(model::Bytes file) { return safetensors::describe_structure(file, Profile::kSpec).defects.empty(); }

std::set<std::string> rules_of(model::Bytes file, const std::set<std::string>& without = {}) {
  std::set<std::string> rules;
  for (const model::Defect& defect : safetensors::describe_structure(file, Profile::kSpec, without).defects) {
    rules.insert(defect.rule);
  }
  return rules;
}

TEST(SafetensorsDraft, GivesEveryFileBack) {
  std::size_t whole = 0, files = 0;
  const auto check = [&](const std::vector<std::byte>& file) {
    const auto draft = take_apart_safetensors(file);
    ++files;
    if (!draft) return;
    ++whole;
    ASSERT_EQ(write(*draft), file) << model::text_of(file);
  };
  const TestSeeds& seeds = safetensors_seeds();
  for (const Case& item : seeds.manifest.cases) {
    if (item.size_bytes <= kFileBytesMax) check(read_file(seeds.manifest.directory / item.path));
  }
  for (std::uint64_t i = 0; i < kMutants; ++i) check(make_mutated_file(seeds.lists, 3, i).bytes);
  // Only files without a length, and those that nest very deep, cannot be taken apart.
  EXPECT_GT(whole, files * 99 / 100);
}

TEST(SafetensorsDraft, ClosesTheDataWhereATensorWas) {
  // A draft refers to its file.
  const std::vector<std::byte> file = file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                              R"("b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},)"
                                              R"("c":{"dtype":"U16","shape":[2],"data_offsets":[2,6]}})",
                                              "aacccc");
  auto draft = take_apart_safetensors(file);
  ASSERT_TRUE(draft);
  erase_tensors(*draft, {0});
  EXPECT_EQ(write(draft->root), R"({"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                R"("c":{"dtype":"U16","shape":[2],"data_offsets":[0,4]}})");
  EXPECT_EQ(model::text_of(draft->data.bytes), "cccc");
  reshape(*draft, {{0, {3}, "U8"}});
  reshape(*draft, {{1, {}, "U8"}});
  EXPECT_TRUE(is_valid(write(*draft))) << write(draft->root);
  EXPECT_EQ(draft->data.bytes.size(), 4);
}

TEST(SafetensorsDraft, KeepsTheDifferenceOfASizeThatIsWrong) {
  const std::vector<std::byte> file = file_of(R"({"a":{"dtype":"U16","shape":[4],"data_offsets":[0,9]}})", "aaaaaaaaa");
  auto draft = take_apart_safetensors(file);
  ASSERT_TRUE(draft);
  reshape(*draft, {{0, {1}, "U8"}});
  EXPECT_EQ(write(draft->root), R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,2]}})");
}

TEST(SafetensorsMutants, AreTheSameForTheSameSeed) {
  const SeedLists& seeds = safetensors_seeds().lists;
  std::set<std::vector<std::byte>> distinct;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const MutatedFile mutated = make_mutated_file(seeds, 1, i);
    EXPECT_EQ(mutated.bytes, make_mutated_file(seeds, 1, i).bytes);
    EXPECT_FALSE(mutated.change.empty());
    distinct.insert(mutated.bytes);
  }
  EXPECT_GT(distinct.size(), 900);
}

TEST(SafetensorsMutants, BreakEveryRuleAndAreOftenValid) {
  const SeedLists& seeds = safetensors_seeds().lists;
  std::map<std::string, int> first;
  std::set<FilePart> parts;
  int valid = 0, open = 0;
  for (std::uint64_t i = 0; i < kMutants; ++i) {
    const MutatedFile mutated = make_mutated_file(seeds, 1, i);
    const Assessment assessment = assess(*mutated.seed->format, mutated.bytes, {}, {});
    parts.insert(mutated.part);
    valid += assessment.item.verdict == Verdict::kValid ? 1 : 0;
    open += assessment.item.verdict == Verdict::kImplementationDefined ? 1 : 0;
    if (!assessment.item.rules.empty()) ++first[assessment.item.rules.front()];
    EXPECT_EQ(assessment.expected.has_value(), assessment.item.verdict != Verdict::kInvalid);
  }
  for (int number = 1; number <= 15; ++number) {
    const std::string rule = fmt::format("ST-{:03}", number);
    EXPECT_GE(first[rule], 10) << rule;
  }
  EXPECT_GT(valid, int{kMutants} / 5);
  EXPECT_GT(open, 50);
  EXPECT_EQ(parts.size(), 6);
}

TEST(SafetensorsMutants, AreValidWhereOnlyContentChanges) {
  const SeedLists& seeds = safetensors_seeds().lists;
  Random random(5, 0);
  int valid = 0;
  constexpr int kCount = 2000;
  for (int i = 0; i < kCount; ++i) {
    auto draft = take_apart_safetensors(random.pick(random.pick(seeds)).bytes);
    ASSERT_TRUE(draft);
    std::string text;
    make_safetensors_neighbour(*draft, random, text);
    valid += is_valid(write(*draft)) ? 1 : 0;
  }
  EXPECT_GT(valid, kCount * 95 / 100);
}

TEST(MinimizeSafetensors, LeavesTheOneThingThatCounts) {
  const TestSeeds& seeds = safetensors_seeds();
  std::set<std::string> seen;
  for (const Case& item : seeds.manifest.cases) {
    if (item.rules.empty() || item.size_bytes > kFileBytesMax || seen.contains(item.rules.front())) continue;
    const std::string rule = item.rules.front();
    const std::vector<std::byte> file = read_file(seeds.manifest.directory / item.path);
    // The same rule alone, with a tensor and metadata that have nothing to do with it.
    auto draft = take_apart_safetensors(file);
    if (rules_of(file) != std::set{rule} || !draft || draft->root.items.empty()) continue;
    draft->root.items.push_back(member("__metadata__", R"({"format":"pt"})"));
    draft->root.items.push_back(member("another", R"({"dtype":"F32","shape":[0, 7],"data_offsets":[0,0]})"));
    separate(draft->root.items);
    const std::vector<std::byte> large = write(*draft);
    const auto holds = [&](model::Bytes candidate) { return rules_of(candidate) == std::set{rule}; };
    if (!holds(large)) continue;
    seen.insert(rule);
    SCOPED_TRACE(item.id);
    const Minimized minimized = minimize(format_of_name("safetensors"), large, {}, holds);
    EXPECT_TRUE(minimized.finished);
    EXPECT_TRUE(holds(minimized.file));
    EXPECT_LE(minimized.file.size(), 120) << model::text_of(minimized.file);
  }
  EXPECT_GE(seen.size(), 9);
}

TEST(MinimizeSafetensors, FindsTheDataThatCounts) {
  std::string data(60'000, 'a');
  data[33'333] = 'x';
  const std::vector<std::byte> file = file_of(R"({"w":{"dtype":"U8","shape":[60000],"data_offsets":[0,60000]}})", data);
  const auto holds = [](model::Bytes candidate) {
    return is_valid(candidate) && model::text_of(candidate).find('x') != std::string_view::npos;
  };
  ASSERT_TRUE(holds(file));
  const Minimized minimized = minimize(format_of_name("safetensors"), file, {}, holds);
  EXPECT_TRUE(holds(minimized.file));
  EXPECT_LT(minimized.file.size(), 80);
}

// A reader that adds in 64 bits without a check finds the right size.
TEST(MinimizeSafetensors, TakesDataThatEndsBeforeItBegins) {
  const std::vector<std::byte> file =
      file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551615,3]},)"
              R"("b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
              "bbbbbbbb");
  const auto holds = [](model::Bytes candidate) {
    return model::text_of(candidate).find("18446744073709551615,3]") != std::string_view::npos;
  };
  const Minimized minimized = minimize(format_of_name("safetensors"), file, {}, holds);
  EXPECT_TRUE(minimized.finished);
  EXPECT_LT(minimized.file.size(), 50U);
}

}  // namespace
}  // namespace tzmark::conformance::mutation
