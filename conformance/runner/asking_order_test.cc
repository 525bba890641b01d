// Tests of the order in which cases are asked.
#include "runner/asking_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace tzmark::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Cases of these sequences; an empty text is a case of none.
std::vector<Case> cases_of(const std::vector<std::string>& sequences) {
  std::vector<Case> cases;
  for (const std::string& sequence : sequences) {
    Case item;
    if (!sequence.empty()) item.sequence = sequence;
    cases.push_back(item);
  }
  return cases;
}

TEST(AskingOrder, KeepsSequencesTogetherAndInTheirOrder) {
  std::vector<std::vector<std::size_t>> order = asking_order(cases_of({"a", "", "b", "a", "", "b", "a"}));
  std::ranges::sort(order);
  EXPECT_THAT(order, ElementsAre(ElementsAre(0, 3, 6), ElementsAre(1), ElementsAre(2, 5), ElementsAre(4)));
}

TEST(AskingOrder, MixesCasesAlwaysInTheSameWay) {
  const std::vector<Case> cases = cases_of(std::vector<std::string>(1000));
  const auto order = asking_order(cases);
  EXPECT_EQ(order, asking_order(cases));
  // Of those in the first half of the list, about half are asked in the first half of the run.
  const auto early = std::count_if(order.begin(), order.begin() + 500, [](const auto& turn) { return turn[0] < 500; });
  EXPECT_GT(early, 200);
  EXPECT_LT(early, 300);
}

TEST(AskingOrder, OfNoCasesIsEmpty) { EXPECT_THAT(asking_order({}), IsEmpty()); }

}  // namespace
}  // namespace tzmark::conformance
