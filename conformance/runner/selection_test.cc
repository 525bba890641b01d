// Tests of the selection of cases.
#include "runner/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

Manifest three_cases() {
  Manifest manifest;
  for (const auto& [id, layout] : {std::pair{"alpha-1", "v1"}, {"alpha-2", "v2"}, {"beta-1", "v1"}}) {
    Case item;
    item.id = id;
    item.layout = layout;
    item.rules = {"TZR-HDR-002"};
    manifest.cases.push_back(item);
  }
  manifest.rules["TZR-IDX-004"] = {};
  return manifest;
}

std::string selected(const Selection& selection) {
  std::string joined;
  for (const Case& item : select_cases(three_cases(), selection)) joined += item.id + " ";
  return joined;
}

std::string error_of(const Selection& selection) {
  try {
    select_cases(three_cases(), selection);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Selection, ByPatternAndLayout) {
  EXPECT_EQ(selected({}), "alpha-1 alpha-2 beta-1 ");
  EXPECT_EQ(selected({.ids = {"alpha-*"}, .layouts = {}, .rules = {}}), "alpha-1 alpha-2 ");
  EXPECT_EQ(selected({.ids = {"alpha-2", "b*"}, .layouts = {}, .rules = {}}), "alpha-2 beta-1 ");
  EXPECT_EQ(selected({.ids = {"alpha-*"}, .layouts = {"v1"}, .rules = {}}), "alpha-1 ");
  EXPECT_EQ(selected({.ids = {}, .layouts = {}, .rules = {"TZR-HDR-002"}}), "alpha-1 alpha-2 beta-1 ");
}

TEST(Selection, ExclamationMarkExcludes) {
  EXPECT_EQ(selected({.ids = {"!alpha-*"}, .layouts = {}, .rules = {}}), "beta-1 ");
  EXPECT_EQ(selected({.ids = {"*-1", "!beta-*"}, .layouts = {}, .rules = {}}), "alpha-1 ");
  // The order does not matter.
  EXPECT_EQ(selected({.ids = {"!beta-*", "*-1"}, .layouts = {}, .rules = {}}), "alpha-1 ");
}

TEST(Selection, QuickLeavesOutLargeFiles) {
  Manifest manifest = three_cases();
  manifest.cases[1].features = {"encryption", "large-file"};
  std::vector<std::string> ids;
  for (const Case& item : select_cases(manifest, {.ids = {}, .layouts = {}, .rules = {}, .quick = true})) {
    ids.push_back(item.id);
  }
  EXPECT_THAT(ids, testing::ElementsAre("alpha-1", "beta-1"));
}

TEST(Selection, MayBeEmpty) {
  EXPECT_EQ(selected({.ids = {"beta-1"}, .layouts = {"v2"}, .rules = {}}), "");
  // A rule and a layout that are known, but no case here has them.
  EXPECT_EQ(selected({.ids = {}, .layouts = {"v5-segments"}, .rules = {}}), "");
  EXPECT_EQ(selected({.ids = {}, .layouts = {}, .rules = {"TZR-IDX-004"}}), "");
}

TEST(Selection, WhatIsUnknownIsNamed) {
  EXPECT_EQ(error_of({.ids = {"beta-1", "alpha-3"}, .layouts = {}, .rules = {}}),
            "no case matches 'alpha-3'; did you mean 'alpha-1'?");
  EXPECT_EQ(error_of({.ids = {"!alhpa-*"}, .layouts = {}, .rules = {}}),
            "no case matches '!alhpa-*'; did you mean 'alpha-*'?");
  EXPECT_EQ(error_of({.ids = {"entirely-different"}, .layouts = {}, .rules = {}}),
            "no case matches 'entirely-different'");
  EXPECT_EQ(error_of({.ids = {}, .layouts = {"v5-segment"}, .rules = {}}),
            "unknown layout 'v5-segment'; did you mean 'v5-segments'?");
  EXPECT_EQ(error_of({.ids = {}, .layouts = {}, .rules = {"TZR-HRD-002"}}),
            "unknown rule 'TZR-HRD-002'; did you mean 'TZR-HDR-002'?");
}

TEST(Selection, FindsOneCase) {
  const Manifest manifest = three_cases();
  EXPECT_EQ(find_case(manifest, "beta-1").id, "beta-1");
  EXPECT_THROW(find_case(manifest, "beta-2"), UsageError);
}

}  // namespace
}  // namespace tzmark::conformance
