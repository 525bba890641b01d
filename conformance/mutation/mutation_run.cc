// Asks an adapter about mutated files; see mutation_run.h.
#include "mutation/mutation_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <tuple>
#include <unordered_set>

#include "runner/encode_case.h"
#include "runner/explain.h"
#include "runner/limits.h"
#include "runner/sha256.h"
#include "runner/stage.h"
#include "runner/staged_file.h"
#include "runner/workers.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::uint64_t kSpecificationOneIn = 10;

// A sentence for the manifest.
std::string reason_of(const Trial& trial) {
  std::string text = fmt::format("A {} change of {}: {}", trial.mutated.consistent ? "consistent" : "raw",
                                 trial.base().id, one_line(trial.mutated.change, 200));
  const auto& defects = trial.assessment.description.defects;
  const auto broken = std::ranges::find_if(defects, model::refuses_verify);
  if (broken != defects.end()) text += fmt::format("; {}", one_line(model::sentence_of(*broken), 200));
  while (text.ends_with('.')) text.pop_back();
  return text + ".";
}

void complete_case(const MutationOptions& options, Trial& trial) {
  Case& item = trial.assessment.item;
  const Case& base = trial.base();
  item.id = mutation_id(options.seed, trial.number);
  item.origin = {{"base", base.id}, {"mutation", one_line(trial.mutated.change, 500)}};
  item.why = reason_of(trial);
  // A mutated file may be larger than its base.
  Limits limits = trial.specification ? item.limits : limits_for_file(item.size_bytes, item.passphrase.has_value());
  limits.elapsed_max = std::max(limits.elapsed_max, base.limits.elapsed_max);
  limits.memory_max_bytes = std::max(limits.memory_max_bytes, base.limits.memory_max_bytes);
  item.limits = options.suite.limits.over(limits);
  if (item.rules.empty()) item.rules = base.rules;
}

bool has_to_be_refused(Verdict verdict) {
  return verdict != Verdict::kValid && verdict != Verdict::kImplementationDefined;
}

// Every reader must reject an invalid file, whatever its profile says; but the profile must cover the original.
std::optional<std::string> excuse_of(const Trial& trial, const Profile& profile) {
  if (trial.specification) return excuse(trial.assessment.item, profile);
  if (auto reason = excuse(*trial.mutated.seed->item, profile)) return reason;
  const Verdict verdict = required_verdict(trial.assessment.item);
  const bool never_read = has_to_be_refused(verdict) && verdict != Verdict::kIntegrityFailure;
  return never_read ? std::nullopt : excuse(trial.assessment.item, profile);
}

// Mutation `number` of a run.
Trial make_trial(const SeedLists& seeds, const MutationOptions& options, std::uint64_t number) {
  Trial trial;
  trial.number = number;
  const bool has_specifications = options.specifications && !options.specifications->list.empty();
  if (!has_specifications || number % kSpecificationOneIn != kSpecificationOneIn - 1) {
    trial.mutated = make_mutated_file(seeds, options.seed, number);
    return trial;
  }
  trial.specification = make_mutated_specification(*options.specifications, options.seed, number);
  const Case& item = trial.specification->item;
  const std::string text = trial.specification->specification.dump();
  const auto bytes = std::as_bytes(std::span(text));
  trial.mutated = {nullptr, {bytes.begin(), bytes.end()}, item.key_hex, item.passphrase, FilePart::kSpecification,
                   true,    trial.specification->change};
  return trial;
}

class Asker {
 public:
  Asker(const Adapter& adapter, const MutationOptions& options, RandomValues& random_values)
      : adapter_(&adapter), options_(&options), random_values_(&random_values), stage_(options.suite.input) {}

  void ask(Trial& trial) {
    if (trial.specification) {
      trial.assessment.item = trial.specification->item;
      trial.assessment.item.size_bytes = trial.mutated.bytes.size();
      trial.assessment.expected = trial.specification->expected;
    } else {
      trial.assessment =
          assess(*trial.mutated.seed->format, trial.mutated.bytes, trial.mutated.key_hex, trial.mutated.passphrase);
    }
    complete_case(*options_, trial);
    options_->policies.apply(trial.assessment.choices, trial.assessment.item);
    const Case& item = trial.assessment.item;
    const Profile& profile = adapter_->profile();
    if (const auto reason = excuse_of(trial, profile)) {
      trial.judgement.reason = *reason;
      return;
    }
    trial.specification ? ask_to_write(trial) : ask_in_all_modes(trial);
    trial.judgement = judge_case(item, trial.steps);
    if (trial.steps.empty()) trial.judgement.reason = absence(options_->suite.input.modes.front());
  }

 private:
  void ask_to_write(Trial& trial) {
    const Case& item = trial.assessment.item;
    Step step = run_encode_case(trial.specification->specification, item, trial.assessment.expected, *adapter_,
                                item.limits, options_->suite.kept, *random_values_);
    std::string().swap(step.process.stdout_text);
    trial.steps.push_back(std::move(step));
  }

  void ask_in_all_modes(Trial& trial) {
    const auto& bytes = trial.mutated.bytes;
    const StagedFile file(bytes, trial.mutated.seed->format->suffix);
    for (const InputMode mode : options_->suite.input.modes) {
      for (const Command command : commands_in(mode, adapter_->profile())) {
        if (command == Command::kStream) continue;
        ask(command, mode, file, trial);
        // An answer about a changed file says nothing about this one.
        if (trial.steps.back().changed_file) return;
      }
    }
  }

  void ask(Command command, InputMode mode, const StagedFile& file, Trial& trial) {
    const Case& item = trial.assessment.item;
    const auto& bytes = trial.mutated.bytes;
    const Question question{command, file.path(), {}, file.directory(), item.key_hex, item.passphrase};
    Step step = stage_.ask(mode, question, bytes, *adapter_, item.limits);
    judge_step(item, trial.assessment.expected, adapter_->profile(), step);
    if (is_failure(step.outcome)) step.explanation = explain(item, step, bytes, trial.assessment.description);
    step.answer.document = Json();
    std::string().swap(step.process.stdout_text);
    trial.steps.push_back(std::move(step));
  }

  const Adapter* adapter_;
  const MutationOptions* options_;
  RandomValues* random_values_;
  Stage stage_;
};

// What a run keeps of each mutated file.
struct Mark {
  enum class Sort : std::uint8_t { kNone, kDuplicate, kInvalid, kValid, kOpen, kOpenRule };
  Sort sort = Sort::kNone;
  FilePart part = FilePart::kFile;
  Outcome outcome = Outcome::kSkipped;
  bool accepted = false;
  std::uint16_t rule = 0;  // a place in the list of rules
};

const Step* decisive_step(const Trial& trial) {
  const auto found =
      std::ranges::find_if(trial.steps, [&](const Step& step) { return step.outcome == trial.judgement.outcome; });
  return found == trial.steps.end() ? nullptr : &*found;
}

class Run {
 public:
  Run(const SeedLists& seeds, const Adapter& adapter, const MutationOptions& options,
      const std::atomic<bool>& cancelled, const std::function<void(std::size_t)>& progress)
      : seeds_(&seeds),
        adapter_(&adapter),
        options_(&options),
        cancelled_(&cancelled),
        progress_(&progress),
        end_(options.mutations),
        marks_(options.mutations) {
    for (const auto& list : seeds) {
      for (const Seed& seed : list) seen_.insert(identity(seed.bytes, seed.item->key_hex, seed.item->passphrase));
    }
  }

  MutationScore run() {
    ask_on_threads(options_->suite.jobs, {adapter_}, [this] { work(); });
    return score();
  }

 private:
  static std::string identity(model::Bytes bytes, const std::optional<std::string>& key,
                              const std::optional<std::string>& passphrase) {
    return sha256_of(bytes) + key.value_or("-") + passphrase.value_or("");
  }

  // Makes the next mutated file that differs from all earlier ones, in sequence, so that each run makes the same ones.
  std::optional<Trial> next() {
    const std::lock_guard lock(making_);
    while (!*cancelled_ && next_ < end_) {
      Trial trial = make_trial(*seeds_, *options_, next_++);
      if (seen_.insert(identity(trial.mutated.bytes, trial.mutated.key_hex, trial.mutated.passphrase)).second) {
        return trial;
      }
      marks_[trial.number].sort = Mark::Sort::kDuplicate;
    }
    return std::nullopt;
  }

  void work() {
    try {
      Asker asker(*adapter_, *options_, random_values_);
      while (auto trial = next()) {
        asker.ask(*trial);
        // A process that the user stopped says nothing about the adapter.
        if (*cancelled_) return;
        const std::lock_guard lock(keeping_);
        keep(std::move(*trial));
        (*progress_)(++done_);
      }
    } catch (...) {
      end_ = 0;
      throw;
    }
  }

  void keep(Trial&& trial) {
    const Verdict verdict = required_verdict(trial.assessment.item);
    Mark& mark = marks_[trial.number];
    const bool breaks_rule = trial.assessment.description.document.is_null();
    mark.sort = verdict == Verdict::kValid                   ? Mark::Sort::kValid
                : verdict != Verdict::kImplementationDefined ? Mark::Sort::kInvalid
                : breaks_rule                                ? Mark::Sort::kOpenRule
                                                             : Mark::Sort::kOpen;
    mark.part = trial.mutated.part;
    mark.outcome = trial.judgement.outcome;
    mark.accepted = !trial.steps.empty() && trial.steps.front().answer.kind == AnswerKind::kAccepted;
    const std::string& rule = trial.assessment.item.rules.front();
    mark.rule = static_cast<std::uint16_t>(rule_numbers_.emplace(rule, rule_numbers_.size()).first->second);
    if (is_failure(mark.outcome)) keep_failure(std::move(trial));
  }

  void keep_failure(Trial&& trial) {
    if (options_->stop_at_first) end_ = std::min<std::uint64_t>(end_, trial.number + 1);
    const Step& step = *decisive_step(trial);
    const bool invalid = has_to_be_refused(required_verdict(trial.assessment.item));
    const std::string rule = invalid ? trial.assessment.item.rules.front() : step.answer.rejection.rule.value_or("");
    FailureGroup& group = groups_[{step.outcome, step.command, step.mode, rule, trial.mutated.part}];
    if (group.mutations++ > 0 && group.first.number < trial.number) return;
    group.command = step.command;
    group.mode = step.mode;
    group.outcome = step.outcome;
    group.rule = rule;
    group.part = trial.mutated.part;
    group.first = std::move(trial);
  }

  MutationScore score() {
    MutationScore score;
    for (const auto& list : *seeds_) score.seed_files += list.size();
    if (options_->specifications) score.seed_files += options_->specifications->list.size();
    std::vector<std::string> rules(rule_numbers_.size());
    for (const auto& [rule, number] : rule_numbers_) rules[number] = rule;
    // With stop_at_first, others were on their way when the first failed.
    marks_.resize(std::min<std::uint64_t>(marks_.size(), end_));
    for (const Mark& mark : marks_) add(mark, rules, score);
    for (auto& [key, group] : groups_) {
      if (group.first.number >= end_) continue;
      if (options_->stop_at_first) group.mutations = 1;
      score.failures.push_back(std::move(group));
    }
    return score;
  }

  static void add(const Mark& mark, const std::vector<std::string>& rules, MutationScore& score) {
    if (mark.sort == Mark::Sort::kNone) return;
    ++score.mutations;
    if (mark.sort == Mark::Sort::kDuplicate) {
      ++score.duplicates;
      return;
    }
    PartScore& part = score.parts[static_cast<std::size_t>(mark.part)];
    ++score.outcomes[static_cast<std::size_t>(mark.outcome)];
    const bool right = mark.outcome == Outcome::kPass;
    if (mark.outcome == Outcome::kSkipped) {
      ++part.skipped;
      return;
    }
    if (is_failure(mark.outcome)) ++part.failed;
    if (mark.sort == Mark::Sort::kInvalid) {
      ++part.invalid;
      part.refused += right ? 1 : 0;
      RuleScore& rule = score.rules[rules[mark.rule]];
      ++rule.broken;
      rule.refused += right ? 1 : 0;
    } else if (mark.sort == Mark::Sort::kValid) {
      ++part.valid;
      part.accepted += right ? 1 : 0;
    } else {
      ++part.open;
      part.open_accepted += mark.accepted ? 1 : 0;
      if (mark.sort == Mark::Sort::kOpen) return;
      ++score.open_rules.broken;
      score.open_rules.refused += mark.accepted ? 0 : 1;
    }
  }

  const SeedLists* seeds_;
  const Adapter* adapter_;
  const MutationOptions* options_;
  const std::atomic<bool>* cancelled_;
  const std::function<void(std::size_t)>* progress_;

  RandomValues random_values_;

  std::mutex making_;  // guards what follows
  std::unordered_set<std::string> seen_;
  std::uint64_t next_ = 0;
  std::atomic<std::uint64_t> end_;

  std::mutex keeping_;  // guards what follows, but for the marks of duplicates
  std::vector<Mark> marks_;
  std::map<std::string, std::size_t> rule_numbers_;
  std::map<std::tuple<Outcome, Command, InputMode, std::string, FilePart>, FailureGroup> groups_;
  std::size_t done_ = 0;
};

}  // namespace

void PartScore::add(const PartScore& other) {
  invalid += other.invalid;
  refused += other.refused;
  valid += other.valid;
  accepted += other.accepted;
  open += other.open;
  open_accepted += other.open_accepted;
  skipped += other.skipped;
  failed += other.failed;
}

PartScore MutationScore::all() const {
  PartScore sum;
  for (const PartScore& part : parts) sum.add(part);
  return sum;
}

std::string mutation_id(std::uint64_t seed, std::uint64_t number) { return fmt::format("mutant-{}-{}", seed, number); }

Trial try_mutation(const SeedLists& seeds, const Adapter& adapter, const MutationOptions& options,
                   std::uint64_t number) {
  Trial trial = make_trial(seeds, options, number);
  RandomValues random_values;
  Asker(adapter, options, random_values).ask(trial);
  return trial;
}

MutationScore run_mutations(const SeedLists& seeds, const Adapter& adapter, const MutationOptions& options,
                            const std::atomic<bool>& cancelled, const std::function<void(std::size_t done)>& progress) {
  return Run(seeds, adapter, options, cancelled, progress).run();
}

}  // namespace tzmark::conformance::mutation
