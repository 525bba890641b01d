// A run finds what is wrong with a reader, and the same whatever the number of jobs.
#include "mutation/mutation_run.h"

#include <gmock/gmock.h>

#include "mutation/findings.h"
#include "mutation/mutation_report.h"
#include "runner/scratch_directory.h"
#include "testing/test_seeds.h"

namespace tzmark::conformance::mutation {
namespace {

const std::atomic<bool> kGoOn = false;

class MutationRunTest : public testing::Test {
 protected:
  // The model, or a reader that leaves rules out.
  static Adapter model(std::vector<std::string> without = {}) {
    std::vector<std::string> argv = {std::filesystem::path(std::getenv("TZMARK_BUILD_DIR")) /
                                     "libexec/tzmark/tzmark-adapter-model"};
    for (std::string& rule : without) argv.insert(argv.end(), {"--without", std::move(rule)});
    return Adapter(std::move(argv), kGoOn);
  }

  static MutationScore run(const Adapter& adapter, std::uint64_t mutations, unsigned jobs, bool stop_at_first = false) {
    MutationOptions options;
    options.mutations = mutations;
    options.stop_at_first = stop_at_first;
    options.suite.jobs = jobs;
    return run_mutations(test_seeds().lists, adapter, options, kGoOn, [](std::size_t) {});
  }

  static std::string told(const Adapter& adapter, const MutationScore& score) {
    return json_report({&adapter, {}, score, {}, {}}).dump();
  }
};

TEST_F(MutationRunTest, PassesTheModel) {
  const Adapter adapter = model();
  const MutationScore score = run(adapter, 2000, 2);
  EXPECT_EQ(score.mutations, 2000u);
  EXPECT_THAT(score.failures, testing::IsEmpty());
  const PartScore all = score.all();
  EXPECT_EQ(all.refused, all.invalid);
  EXPECT_EQ(all.accepted, all.valid);
  EXPECT_GT(all.invalid, 1000u);
  EXPECT_GT(all.valid, 100u);
  EXPECT_EQ(all.invalid + all.valid + all.open + score.duplicates, 2000u);
}

TEST_F(MutationRunTest, FindsTheRuleThatIsLeftOut) {
  const Adapter adapter = model({"TZR-REC-009"});
  const MutationScore score = run(adapter, 1000, 2);
  ASSERT_FALSE(score.failures.empty());
  for (const FailureGroup& group : score.failures) {
    // Without the rule, a file of data version 5 fits another layout.
    EXPECT_THAT(group.rule, testing::AnyOf("TZR-REC-009", "TZR-HDR-007"));
    EXPECT_EQ(group.outcome, Outcome::kAcceptedInvalid);
  }
  EXPECT_LT(score.rules.at("TZR-REC-009").refused, score.rules.at("TZR-REC-009").broken);
  EXPECT_LT(score.all().refused, score.all().invalid);
}

TEST_F(MutationRunTest, IsTheSameWithAnyNumberOfJobs) {
  const Adapter adapter = model({"TZR-REC-009", "TZR-HSH-006"});
  EXPECT_EQ(told(adapter, run(adapter, 800, 1)), told(adapter, run(adapter, 800, 3)));
  EXPECT_EQ(told(adapter, run(adapter, 800, 1, true)), told(adapter, run(adapter, 800, 3, true)));
}

TEST_F(MutationRunTest, StopsAtTheFirstFailure) {
  const Adapter adapter = model({"TZR-REC-009"});
  const MutationScore all = run(adapter, 800, 2);
  const MutationScore score = run(adapter, 800, 2, true);
  ASSERT_EQ(score.failures.size(), 1u);
  EXPECT_EQ(score.failures[0].mutations, 1u);
  EXPECT_EQ(score.mutations, score.failures[0].first.number + 1);
  EXPECT_LE(score.mutations, all.mutations);
}

TEST_F(MutationRunTest, RepeatsOneMutant) {
  const Adapter adapter = model({"TZR-REC-009"});
  MutationOptions options;
  const MutationScore score = run(adapter, 800, 1, true);
  const Trial trial = try_mutation(test_seeds().lists, adapter, options, score.failures.at(0).first.number);
  EXPECT_EQ(trial.judgement.outcome, Outcome::kAcceptedInvalid);
  EXPECT_EQ(trial.mutated.bytes, score.failures[0].first.mutated.bytes);
  EXPECT_THAT(text_report(trial), testing::HasSubstr("breaks TZR-REC-009 at byte"));
}

TEST_F(MutationRunTest, FindingsAreACorpus) {
  const Adapter adapter = model({"TZR-REC-009"});
  const Trial trial = run(adapter, 800, 1, true).failures.at(0).first;
  const ScratchDirectory directory;
  Findings findings(directory.path() / "found");
  findings.add(
      {trial.assessment.item, trial.mutated.bytes, trial.assessment.expected, "accepted-invalid", "why", "cmd"});
  Manifest manifest = load_manifest(findings.directory());
  load_expected(manifest, manifest.cases);
  ASSERT_EQ(manifest.cases.size(), 1u);
  const Adapter again = model({"TZR-REC-009"});
  const auto results = run_suite(manifest, manifest.cases, again, {}, kGoOn, [](std::size_t) {});
  EXPECT_EQ(results.at(0).outcome, Outcome::kAcceptedInvalid);
  EXPECT_EQ(results[0].item.rules, trial.assessment.item.rules);
  EXPECT_THROW(Findings(directory.path() / "found"), std::runtime_error);
}

}  // namespace
}  // namespace tzmark::conformance::mutation
