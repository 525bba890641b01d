// How many of the wrong readers do mutated files find?
//
// TZMARK_MUTANTS=N asks about N mutated files instead of 20,000, which a user is advised to run, and
// TZMARK_MUTATION_SEED=N takes another seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "mutation/assess.h"
#include "mutation/mutated_file.h"
#include "mutation/wrong_readers.h"
#include "runner/explain.h"
#include "runner/judge.h"
#include "testing/test_seeds.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::uint64_t kMutants = 20000;
constexpr std::uint64_t kFirstSeed = 1;

std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

const Profile& reader_profile() {
  static const Profile profile = [] {
    Profile made;
    made.commands = {"decode", "verify"};
    return made;
  }();
  return profile;
}

// The outcome of one answer, judged as in a run.
bool is_wrong(const Assessment& assessment, Command command, bool accepts, const Json& document) {
  Step step;
  step.command = command;
  step.answer.kind = accepts ? AnswerKind::kAccepted : AnswerKind::kRejected;
  if (accepts && command == Command::kDecode) step.answer.document = document;
  judge_step(assessment.item, assessment.expected, reader_profile(), step);
  return is_failure(step.outcome);
}

bool is_caught(const Assessment& assessment, const Said& said) {
  return is_wrong(assessment, Command::kDecode, said.decodes, said.document) ||
         is_wrong(assessment, Command::kVerify, said.verifies, {});
}

struct Found {
  std::uint64_t number = 0;
  std::string change;
};

// By name, the first mutated file that finds each reader.
std::map<std::string, Found> find(const std::vector<WrongReader>& readers, std::uint64_t seed, std::uint64_t mutants) {
  std::map<std::string, Found> found;
  std::chrono::steady_clock::duration making{};
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < mutants; ++i) {
    const auto began = std::chrono::steady_clock::now();
    const MutatedFile mutated = make_mutated_file(test_seeds().lists, seed, i);
    const Assessment assessment = assess(*mutated.seed->format, mutated.bytes, mutated.key_hex, mutated.passphrase);
    making += std::chrono::steady_clock::now() - began;
    bytes += mutated.bytes.size();
    const model::Secret secret = secret_of(assessment.item);
    // Another reading of the same file may be right, too.
    const model::Description right = model::describe(mutated.bytes, secret);
    for (const WrongReader& reader : readers) {
      if (found.contains(reader.name)) continue;
      const Said said = reader.answer({mutated.bytes, secret, right});
      if (is_caught(assessment, said)) found[reader.name] = {i, mutated.change};
    }
  }
  const double seconds = std::chrono::duration<double>(making).count();
  fmt::print("{:.0f} files made and assessed per second, of {} bytes on average\n",
             static_cast<double>(mutants) / seconds, bytes / std::max<std::uint64_t>(mutants, 1));
  return found;
}

TEST(MutationScore, FindsMostWrongReaders) {
  const std::uint64_t mutants = number_in_environment("TZMARK_MUTANTS", kMutants);
  const std::uint64_t seed = number_in_environment("TZMARK_MUTATION_SEED", kFirstSeed);
  const bool is_default = seed == kFirstSeed && mutants == kMutants;
  const std::vector<WrongReader> readers = wrong_readers();
  const auto found = find(readers, seed, mutants);
  std::map<std::string, std::pair<std::size_t, std::size_t>> kinds;
  std::size_t survivors = 0;
  for (const WrongReader& reader : readers) {
    const auto at = found.find(reader.name);
    auto& [all, caught] = kinds[reader.kind];
    ++all;
    caught += at != found.end() ? 1 : 0;
    survivors += at == found.end() ? 1 : 0;
    const std::string reason = reader.out_of_reach.empty() ? "" : "; " + reader.out_of_reach;
    fmt::print("{}: {}: {}\n", reader.kind, reader.name,
               at == found.end() ? fmt::format("not found in {}{}", mutants, reason)
                                 : fmt::format("mutated file {}, {:.90}", at->second.number, at->second.change));
    if (!is_default) continue;
    if (reader.out_of_reach.empty()) {
      EXPECT_NE(at, found.end()) << reader.name << " is not found, and there is no reason";
    } else {
      EXPECT_EQ(at, found.end()) << reader.name << " is found, and has a reason why not";
    }
  }
  for (const auto& [kind, counts] : kinds) fmt::print("{}: {} of {}\n", kind, counts.second, counts.first);
  fmt::print("{} of {} wrong readers in {} mutated files\n", readers.size() - survivors, readers.size(), mutants);
  EXPECT_GE(readers.size(), 70u);
  if (mutants < kMutants) return;
  // With another seed, chance decides about the rarest.
  EXPECT_GE(readers.size() - survivors, readers.size() * 9 / 10);
}

TEST(MutationScore, FindsNoRightReader) {
  const WrongReader right{"right", "none", "none", [](const AskedFile& file) { return said_of(file.right); }};
  EXPECT_TRUE(find({right}, 3, 300).empty());
}

}  // namespace
}  // namespace tzmark::conformance::mutation
