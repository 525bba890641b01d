// Asks an adapter about mutated files, judges the answers, and scores how strict it is.
//
// MutatedFile i of a seed is the same with any adapter and any number of jobs, and so is the result.
//
// Thread-safety: run_mutations starts and ends threads of its own; the callback is called by one of them at a time.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mutation/assess.h"
#include "mutation/mutated_file.h"
#include "mutation/mutated_specification.h"
#include "runner/adapter.h"
#include "runner/policy.h"
#include "runner/suite.h"

namespace tzmark::conformance::mutation {

// One mutated file and its result, or one mutated specification and that of the file that was written.
struct Trial {
  std::uint64_t number = 0;
  MutatedFile mutated;  // without a seed if there is a specification, whose change and part it has
  std::optional<MutatedSpecification> specification;
  Assessment assessment;    // its case has an id, a reason and limits too
  std::vector<Step> steps;  // decode and verify in each input mode, if the adapter has them, or encode
  CaseJudgement judgement;

  const Case& base() const { return specification ? *specification->base : *mutated.seed->item; }
};

// Failures of one sort: the same command and input mode with the same outcome, the same rule and the same part.
struct FailureGroup {
  Command command = Command::kDecode;
  InputMode mode = InputMode::kFile;
  Outcome outcome = Outcome::kPass;
  std::string rule;  // that the file breaks first; for a valid file, the one that the adapter cites, if any
  FilePart part = FilePart::kFile;
  std::size_t mutations = 0;
  Trial first;
};

struct PartScore {
  std::size_t invalid = 0;  // that every reader must reject, at least in verify
  std::size_t refused = 0;  // of these
  std::size_t valid = 0;    // that every reader must accept
  std::size_t accepted = 0;
  std::size_t open = 0;  // that a reader may accept or reject
  std::size_t open_accepted = 0;
  std::size_t skipped = 0;  // beyond the adapter's profile
  std::size_t failed = 0;

  void add(const PartScore& other);
};

struct RuleScore {
  std::size_t broken = 0;
  std::size_t refused = 0;
};

struct MutationScore {
  std::size_t seed_files = 0;  // and specifications
  std::size_t mutations = 0;   // asked for
  std::size_t duplicates = 0;  // of these, the same file with the same key as an earlier one
  std::array<PartScore, kFilePartCount> parts{};
  std::array<std::size_t, kOutcomeCount> outcomes{};
  std::map<std::string, RuleScore> rules;  // files to reject, by the rule that they break first
  RuleScore open_rules;                    // files that break a rule which FORMAT.md 11.2 leaves to the reader
  std::vector<FailureGroup> failures;      // worst first

  PartScore all() const;
};

struct MutationOptions {
  std::uint64_t seed = 1;
  std::uint64_t mutations = 0;
  bool stop_at_first = false;  // ends with the first mutated file that fails
  Policies policies = {};
  const SpecificationSeeds* specifications = nullptr;  // one in ten mutations is of these; null or empty: none
  SuiteOptions suite;                                  // jobs, limits and input modes
};

// "mutated file-1-812"
std::string mutation_id(std::uint64_t seed, std::uint64_t number);

// Makes and judges one. Throws EnvironmentError if the adapter cannot be asked.
Trial try_mutation(const SeedLists& seeds, const Adapter& adapter, const MutationOptions& options,
                   std::uint64_t number);

// Throws EnvironmentError as try_mutation does. If cancelled becomes true, leaves out unfinished files.
MutationScore run_mutations(const SeedLists& seeds, const Adapter& adapter, const MutationOptions& options,
                            const std::atomic<bool>& cancelled, const std::function<void(std::size_t done)>& progress);

}  // namespace tzmark::conformance::mutation
