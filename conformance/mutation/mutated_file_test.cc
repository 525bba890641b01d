// Mutated files are the same on every machine, reach every part and every rule, and tell what they are.
#include "mutation/mutated_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "mutation/assess.h"
#include "runner/explain.h"
#include "runner/policy.h"
#include "runner/sha256.h"
#include "testing/test_corpus.h"
#include "testing/test_seeds.h"

namespace tzmark::conformance::mutation {
namespace {

TEST(MakeMutant, IsTheSameOnEveryMachine) {
  const std::string content = worked_example();
  const auto bytes = std::as_bytes(std::span(content));
  Case item;
  item.id = "worked-example";
  std::vector<std::vector<Seed>> seeds(1);
  Seed& seed = seeds[0].emplace_back();
  seed.item = &item;
  seed.format = &format_of_name("tensorizer");
  seed.bytes.assign(bytes.begin(), bytes.end());
  seed.description = model::describe(seed.bytes, {});
  seed.draft = take_apart(seed.bytes, {});
  put_together(*seed.draft, &seed.sites);
  std::string all;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const MutatedFile mutated = make_mutated_file(seeds, 7, i);
    all += sha256_of(mutated.bytes) + mutated.change;
  }
  // A change of the mutators changes this digest, and every mutated file that was noted by its number.
  EXPECT_EQ(sha256_of(std::as_bytes(std::span(all))),
            "f5504efaf50dd85dfd0274e2c21517ee8c6496ff4dc6332d9bcb878242f3daf9");
}

TEST(MakeMutant, FollowsTheSeedOfTheRun) {
  const auto& seeds = test_seeds().lists;
  std::size_t same = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(make_mutated_file(seeds, 1, i).bytes, make_mutated_file(seeds, 1, i).bytes);
    if (make_mutated_file(seeds, 1, i).bytes == make_mutated_file(seeds, 2, i).bytes) ++same;
  }
  EXPECT_LT(same, 10u);
}

// A reader that may derive a key must not fail for what that takes.
TEST(MakeMutant, MakesNoKeyDerivationThatIsCostlyAndOpen) {
  std::size_t made = 0;
  for (std::uint64_t i = 0; made < 2000 && i < 200000; ++i) {
    const MutatedFile mutated = make_mutated_file(test_seeds().lists, 1, i);
    if (!mutated.passphrase || mutated.part == FilePart::kSecret) continue;
    ++made;
    const Assessment assessment = assess(*mutated.seed->format, mutated.bytes, mutated.key_hex, mutated.passphrase);
    if (std::ranges::find(assessment.choices, "derivation-cost") == assessment.choices.end()) continue;
    for (const model::Field& field : assessment.description.fields) {
      if (field.name == "memlimit") {
        EXPECT_LE(std::stoull(field.value), 16u << 20) << i << ": " << mutated.change;
      }
      if (field.name == "opslimit") {
        EXPECT_LE(std::stoull(field.value), 8192u) << i << ": " << mutated.change;
      }
    }
  }
  EXPECT_EQ(made, 2000u);
}

TEST(MakeMutant, ReachesEveryPartRawAndMended) {
  std::set<std::pair<FilePart, bool>> reached;
  std::set<std::string> layouts;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const MutatedFile mutated = make_mutated_file(test_seeds().lists, 1, i);
    reached.emplace(mutated.part, mutated.consistent);
    layouts.insert(mutated.seed->item->layout);
    EXPECT_NE(mutated.change, "") << i;
  }
  // Eight parts in both ways, and keys in one.
  EXPECT_EQ(reached.size(), 2 * 8 + 1);
  EXPECT_EQ(layouts.size(), 8u);
}

TEST(MakeMutant, MendedOnesBreakOneRuleOrNone) {
  std::size_t consistent = 0;
  std::size_t few = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const MutatedFile mutated = make_mutated_file(test_seeds().lists, 1, i);
    if (!mutated.consistent) continue;
    const Assessment assessment = assess(*mutated.seed->format, mutated.bytes, mutated.key_hex, mutated.passphrase);
    ++consistent;
    if (assessment.item.rules.size() <= 1) ++few;
  }
  EXPECT_GT(few, consistent * 8 / 10);
}

// Whether a reader that leaves a rule out would be caught by the file.
bool catches(const MutatedFile& mutated, const Assessment& assessment, const std::string& rule) {
  const auto without = model::describe(mutated.bytes, secret_of(assessment.item), {rule});
  const auto refuses = [](const model::Description& description, bool (*test)(const model::Defect&)) {
    return std::any_of(description.defects.begin(), description.defects.end(), test);
  };
  const bool may_decode = assessment.item.verdict == Verdict::kIntegrityFailure;
  const bool decodes =
      !may_decode && refuses(assessment.description, model::refuses_decode) && !refuses(without, model::refuses_decode);
  return decodes || !refuses(without, model::refuses_verify);
}

// Rules that no mutated file breaks in such a way that every reader has to refuse it. Other rules imply the first, the
// second says what a reader may do with a right file, and for the third a file has to be made that reads in two ways,
// which few small changes of another do.
const std::set<std::string> kOutOfReach = {"TZR-REC-005", "TZR-DTY-005", "TZR-HDR-008"};

// Rules that FORMAT.md 11.2 leaves to the reader, and the answers by which a run requires them.
const std::set<std::string> kLeftToReaders = {"TZR-IDX-012", "TZR-TRM-001", "TZR-TRM-002"};
const std::vector<std::string> kAnswers = {"record-gaps=reject", "terminator=reject"};

// By rule, the first mutated file that catches a reader without it.
std::map<std::string, std::uint64_t> first_that_catch(const Policies& policies, std::uint64_t mutants) {
  std::map<std::string, std::uint64_t> first;
  for (std::uint64_t i = 0; i < mutants; ++i) {
    const MutatedFile mutated = make_mutated_file(test_seeds().lists, 1, i);
    Assessment assessment = assess(*mutated.seed->format, mutated.bytes, mutated.key_hex, mutated.passphrase);
    policies.apply(assessment.choices, assessment.item);
    const Verdict verdict = required_verdict(assessment.item);
    if (verdict == Verdict::kValid || verdict == Verdict::kImplementationDefined) continue;
    for (const std::string& rule : assessment.item.rules) {
      if (!first.contains(rule) && catches(mutated, assessment, rule)) first[rule] = i;
    }
  }
  return first;
}

TEST(MakeMutant, CatchesReadersThatLeaveARuleOut) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "minutes under a sanitizer, and what is caught does not depend on it";
#endif
  constexpr std::uint64_t kMutants = 60000;
  const Manifest& manifest = test_seeds().manifest;
  const std::map<std::string, std::uint64_t> first = first_that_catch({}, kMutants);
  std::set<std::string> missed;
  for (const auto& [id, rule] : manifest.rules) {
    if (!id.starts_with("TZR-") || rule.level != "MUST" || rule.binds == "writer") continue;
    const auto found = first.find(id);
    fmt::print("without {}: {}\n", id,
               found == first.end() ? "not caught" : fmt::format("mutated file {}", found->second));
    if (found == first.end()) missed.insert(id);
  }
  std::set<std::string> expected = kOutOfReach;
  expected.insert(kLeftToReaders.begin(), kLeftToReaders.end());
  EXPECT_EQ(missed, expected);
}

TEST(MakeMutant, CatchesReadersThatLeaveARuleOutWhereARunRequiresIt) {
  const auto first = first_that_catch(Policies(test_seeds().manifest, kAnswers, false), 2000);
  for (const std::string& rule : kLeftToReaders) EXPECT_TRUE(first.contains(rule)) << rule;
}

}  // namespace
}  // namespace tzmark::conformance::mutation
