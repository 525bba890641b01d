// Tests of the list of known failures: it cannot go stale.
#include "runner/known.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/errors.h"
#include "runner/scratch_file.h"

namespace tzmark::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class KnownTest : public ::testing::Test {
 protected:
  void add(const std::string& id, Outcome outcome) {
    CaseResult result;
    result.item.id = id;
    result.outcome = outcome;
    result.reason = "what was seen";
    manifest_.cases.push_back(result.item);
    results_.push_back(std::move(result));
  }

  Manifest manifest_;
  std::vector<CaseResult> results_;
};

TEST_F(KnownTest, MarksWhatFailsAsItShould) {
  add("a", Outcome::kCrash);
  add("b", Outcome::kPass);
  EXPECT_THAT(apply_known({{"a", "crash", "issue 7"}}, manifest_, results_), IsEmpty());
  EXPECT_EQ(results_[0].known, "issue 7");
  EXPECT_FALSE(results_[1].known);
}

TEST_F(KnownTest, FindsWhatIsOutOfDate) {
  add("fixed", Outcome::kPass);
  add("other", Outcome::kHang);
  add("left-out", Outcome::kSkipped);
  Case unselected;
  unselected.id = "unselected";
  manifest_.cases.push_back(unselected);
  EXPECT_THAT(
      apply_known({{"fixed", "crash", ""},
                   {"other", "crash", ""},
                   {"left-out", "crash", ""},
                   {"unselected", "crash", ""},
                   {"removed", "crash", ""}},
                  manifest_, results_),
      ElementsAre("fixed: is known as crash, and now it is pass", "other: is known as crash, and now it is hang",
                  "left-out: is known as crash, and now it is skipped", "removed: is not in the corpus any more"));
  for (const CaseResult& result : results_) EXPECT_FALSE(result.known);
  // A list cannot say that passing is a failure.
  EXPECT_THAT(apply_known({{"fixed", "pass", ""}}, manifest_, results_), ::testing::SizeIs(1));
}

TEST_F(KnownTest, FixedListAgreesWithTheRun) {
  add("fixed", Outcome::kPass);
  add("other", Outcome::kHang);
  add("new", Outcome::kCrash);
  add("same", Outcome::kCrash);
  Case unselected;
  unselected.id = "unselected";
  manifest_.cases.push_back(unselected);
  const std::vector<KnownFailure> fixed = fix_known({{"fixed", "crash", "1"},
                                                     {"other", "crash", "2"},
                                                     {"unselected", "crash", "3"},
                                                     {"same", "crash", "5"},
                                                     {"removed", "crash", "4"}},
                                                    manifest_, results_);
  EXPECT_THAT(apply_known(fixed, manifest_, results_), IsEmpty());
  EXPECT_EQ(results_[1].known, "what was seen") << "the old reason was that of a crash";
  EXPECT_EQ(results_[3].known, "5") << "reasons are kept";
  EXPECT_EQ(results_[2].known, "what was seen");
  EXPECT_EQ(fixed.size(), 4u);
}

TEST(KnownFile, SurvivesWritingAndReading) {
  const ScratchFile file("");
  save_known(file.path(), {{"a", "crash", "\"quoted\""}, {"b", "hang", ""}});
  const std::vector<KnownFailure> known = load_known(file.path());
  ASSERT_EQ(known.size(), 2u);
  EXPECT_EQ(known[0].reason, "\"quoted\"");
  EXPECT_EQ(known[1].id, "b");
}

TEST(KnownFile, MistakesAreRefused) {
  for (const char* text : {"", "[]", "{}", R"({"known": [{"case": "a"}]})",
                           R"({"known": [{"case": "a", "outcome": "crash", "reason": ""},
                                         {"case": "a", "outcome": "crash", "reason": ""}]})"}) {
    const ScratchFile file(text);
    EXPECT_THROW(load_known(file.path()), EnvironmentError) << text;
  }
  EXPECT_THROW(load_known("/nonexistent/known.json"), EnvironmentError);
}

}  // namespace
}  // namespace tzmark::conformance
