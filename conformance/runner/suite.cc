// Runs the cases of a corpus; see suite.h.
#include "runner/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "runner/asked_again.h"
#include "runner/asking_order.h"
#include "runner/command_line.h"
#include "runner/encode_case.h"
#include "runner/errors.h"
#include "runner/explain.h"
#include "runner/file_format.h"
#include "runner/selection.h"
#include "runner/staged_file.h"
#include "runner/workers.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

// The command of this suite that runs one case.
std::vector<std::string> own_command(const Manifest& manifest, const Case& item, const Adapter& adapter) {
  std::vector<std::string> words = {
      "tzmark", "conform", "--adapter", join_command(adapter.argv()), "--corpus", manifest.directory.string(),
      "--only", item.id};
  if (adapter.profile().serves() && !adapter.serves()) words.emplace_back("--one-shot");
  return words;
}

model::Description describe_read(std::span<const std::byte> file, const Case& item) {
  return format_of_layout(item.layout).describe(file, secret_of(item), {});
}

// The parts of a run that one thread works with.
struct Worker {
  Worker(const Manifest& corpus, const Adapter& asked, const SuiteOptions& suite_options,
         RandomValues& all_random_values, AskedAgainBudget& budget)
      : manifest(corpus),
        adapter(asked),
        options(suite_options),
        random_values(all_random_values),
        stage(options.input),
        sampled(options.input.sampled),
        asked_again(manifest, adapter, options.limits, stage, budget, options.secrets_are_public) {}

  const Manifest& manifest;
  const Adapter& adapter;
  const SuiteOptions& options;
  RandomValues& random_values;
  Stage stage;
  std::vector<InputMode> sampled;  // those of the options that can be had for this adapter
  AskedAgain asked_again;
  bool is_fresh_after_encryption = false;  // whether the process that encrypted first has been replaced
};

// What to ask about a file, and how to judge it.
struct FileQuestion {
  const Case& item;    // of the corpus
  const Case& judged;  // the same, or with what this adapter may do instead
  const std::optional<Json>& expected;
  std::span<const std::byte> content;
  fs::path file;
  StagedFile* staged = nullptr;  // that file, if it is a copy
};

bool is_sharded(const Case& item) { return is_sharded_layout(item.layout); }

// Whether a case is asked about as a plain file and not in any other input mode.
bool is_only_file(const Case& item) { return item.operation == Operation::kEncode || is_sharded(item); }

// A stream has one file.
std::vector<Command> commands_about(const Case& item, InputMode mode, const Profile& profile) {
  std::vector<Command> commands = commands_in(mode, profile);
  if (is_sharded(item)) std::erase(commands, Command::kStream);
  return commands;
}

// Whether the adapter has left the other files of a model as they were.
bool shards_hold(const FileQuestion& about, const Manifest& manifest) {
  if (about.staged != nullptr) return about.staged->shards_hold();
  if (about.item.shards.empty()) return true;
  try {
    check_files(manifest, about.item);
    return true;
  } catch (const EnvironmentError&) {
    return false;
  }
}

// Asks about a file in an input mode. Returns false if there is nothing more to ask about it.
bool ask_in_mode(InputMode mode, const FileQuestion& about, Worker& worker, std::vector<Step>& steps) {
  const auto& [item, judged, expected, content, name, staged] = about;
  const Adapter& adapter = worker.adapter;
  const Limits limits = worker.options.limits.over(item.limits);
  // If the first bytes are reason enough to reject, the rest never ends.
  Feed feed = {.bytes = content, .endless = item.pipe_max_bytes.has_value()};
  if (item.pipe_max_bytes) feed.taken_max_bytes = *item.pipe_max_bytes;
  for (const Command command : commands_about(item, mode, adapter.profile())) {
    Question question = question_of(name, item, command);
    if (staged != nullptr) question.directory = staged->directory();
    if (command == Command::kStream) question.feed = &feed;
    const auto ask = [&](RandomValues&) {
      Step asked = worker.stage.ask(mode, question, content, adapter, limits);
      if (!shards_hold(about, worker.manifest)) asked.changed_file = true;
      judge_step(judged, expected, adapter.profile(), asked);
      return asked;
    };
    Step step = ask(worker.random_values);
    const bool changed = step.changed_file;
    // The model describes one file.
    if (is_failure(step.outcome) && !is_sharded(item)) {
      step.explanation = explain(judged, step, content, describe_read(content, item));
    }
    // A changed file is not what the question was about.
    if (!changed) worker.asked_again.examine(item, step, worker.random_values, staged, ask);
    steps.push_back(std::move(step));
    // An answer about a changed file says nothing about the case.
    if (changed) return false;
  }
  return true;
}

// How the bytes of an invalid file arrive matters less: of these it is one in eight.
bool is_sampled(const Case& item) {
  return required_verdict(item) == Verdict::kValid || item.sha256.starts_with('0') || item.sha256.starts_with('8');
}

void ask_about(const FileQuestion& about, Worker& worker, std::vector<Step>& steps) {
  const InputModeOptions& input = worker.options.input;
  for (const InputMode mode : input.modes) {
    if (is_only_file(about.item) && mode != InputMode::kFile) continue;
    if (!ask_in_mode(mode, about, worker, steps)) return;
  }
  // What fails already says enough, and large files take long.
  const bool passed = std::ranges::all_of(steps, [](const Step& step) { return step.outcome == Outcome::kPass; });
  if (!passed || steps.empty() || is_large(about.item) || is_only_file(about.item) || !is_sampled(about.judged)) return;
  const auto mode = sample(worker.sampled, worker.adapter.profile(), about.item.sha256);
  if (!mode) return;
  ask_in_mode(*mode, about, worker, steps);
  // Where the mode cannot be had, nothing is skipped, for the run did not name it; and nothing has failed, for a
  // program of another C library does not even start with a library of ours.
  const auto untried = [&](const Step& step) { return step.mode == *mode && !step.untried.empty(); };
  if (std::erase_if(steps, untried) != 0) std::erase(worker.sampled, *mode);
}

// The reason why a case is not asked in any of these input modes, if it is not.
std::optional<std::string> absence_from_all(const Case& item, const Profile& profile,
                                            const std::vector<InputMode>& modes) {
  for (const InputMode mode : modes) {
    if (is_only_file(item) && mode != InputMode::kFile) continue;
    if (item.operation == Operation::kEncode || !commands_about(item, mode, profile).empty()) return std::nullopt;
  }
  if (item.operation == Operation::kEncode) return "is an encode case, which has only the input mode file";
  return is_sharded(item) ? "is a model of several files, which has only the input mode file" : absence(modes.front());
}

Step ask_to_encode(const Case& item, Worker& worker) {
  const Limits limits = worker.options.limits.over(item.limits);
  Step step = run_encode_case(worker.manifest, item, worker.adapter, limits, worker.options.kept, worker.random_values);
  worker.asked_again.examine(item, step, worker.random_values, nullptr, [&](RandomValues& random_values) {
    return run_encode_case(worker.manifest, item, worker.adapter, limits, std::nullopt, random_values);
  });
  if (step.service && item.key_hex && step.outcome == Outcome::kPass && !worker.is_fresh_after_encryption) {
    // A generator of random numbers that is seeded alike in every process gives the next one the same nonces.
    worker.adapter.end_services();
    worker.is_fresh_after_encryption = true;
  }
  return step;
}

// Asks about a case, unless the profile excuses the adapter. judged is the case, or what to judge the answers by
// instead.
CaseResult judge_case_of(const Case& item, const Worker& worker,
                         const std::function<void(const Case& judged, std::vector<Step>& steps)>& ask) {
  CaseResult result;
  result.item = item;
  const Profile& profile = worker.adapter.profile();
  const std::optional<Case> other_layout = as_other_layout(item, profile);
  auto reason = other_layout ? std::nullopt : excuse(item, profile);
  if (!reason) reason = absence_from_all(item, profile, worker.options.input.modes);
  if (reason) {
    result.reason = *reason;
    return result;
  }
  ask(other_layout ? *other_layout : item, result.steps);
  const CaseJudgement judgement = judge_case(item, result.steps);
  result.outcome = judgement.outcome;
  result.reason = judgement.reason;
  return result;
}

CaseResult run_case(const Case& item, Worker& worker) {
  // For skipped cases, too: a changed corpus must not be reported on.
  const std::vector<std::byte> content = read_case_file(worker.manifest, item);
  return judge_case_of(item, worker, [&](const Case& judged, std::vector<Step>& steps) {
    if (item.operation == Operation::kEncode) {
      steps.push_back(ask_to_encode(item, worker));
      return;
    }
    const std::optional<Json> expected = expected_of(item);
    StagedFile file(content, suffix_of(item), read_shards(worker.manifest, item), item.directory_placeholder);
    ask_about({item, judged, expected, file.content(), file.path(), &file}, worker, steps);
  });
}

// A process that takes more to start than counts as idle, and more than a case allows, would fail every case.
void check_idle(const Adapter& adapter, const std::vector<Case>& cases, const SuiteOptions& options) {
  for (const Case& item : cases) {
    // A file that is streamed has a process of its own in either form.
    const bool streamed = item.operation == Operation::kRead && adapter.profile().has(Command::kStream);
    if ((adapter.serves() && !streamed) || excuse(item, adapter.profile())) continue;
    const auto elapsed_over = adapter.idle_elapsed() - adapter.idle_counted_elapsed();
    const std::uint64_t rss_over_bytes = adapter.idle_rss_bytes() - adapter.idle_counted_rss_bytes();
    const Limits limits = options.limits.over(item.limits);
    const bool too_slow = elapsed_over > limits.elapsed_max;
    const bool too_large = rss_over_bytes > limits.memory_max_bytes;
    if (!too_slow && !too_large) continue;
    throw EnvironmentError(fmt::format(
        "the adapter takes {:.1f} s and {:.0f} MiB for capabilities alone, so that one process per question breaks the "
        "limits of {}: let it answer serve, or raise {}",
        seconds_of(adapter.idle_elapsed()), static_cast<double>(adapter.idle_rss_bytes()) / (1 << 20), item.id,
        too_slow && too_large ? "--timeout and --memory"
        : too_slow            ? "--timeout"
                              : "--memory"));
  }
}

// Counts each end after an answer against the question that was answered.
void judge_ends_after_answers(const Adapter& adapter, std::vector<CaseResult>& results) {
  const std::map<std::uint64_t, ProcessResult> ends = adapter.ends_after_answers();
  for (CaseResult& result : results) {
    bool changed = false;
    for (Step& step : result.steps) {
      const auto end = ends.find(step.number);
      if (end == ends.end()) continue;
      judge_end_after_answer(end->second, step);
      changed = true;
    }
    if (!changed) continue;
    const CaseJudgement judgement = judge_case(result.item, result.steps);
    result.outcome = judgement.outcome;
    result.reason = judgement.reason;
  }
}

}  // namespace

bool CaseResult::skipped_something() const {
  return outcome == Outcome::kSkipped ||
         std::ranges::any_of(steps, [](const Step& step) { return step.outcome == Outcome::kSkipped; });
}

bool CaseResult::cites_other_rule() const {
  return outcome == Outcome::kPass &&
         std::ranges::any_of(steps, [](const Step& step) { return step.cites_other_rule; });
}

std::string CaseResult::choice() const {
  if (outcome != Outcome::kImplementationDefined) return "";
  std::string text;
  bool same = true;
  for (const Step& step : steps) {
    same = same && step.answer.kind == steps.front().answer.kind;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} by {}", name_of(step.answer.kind), label(step.command, step.mode));
  }
  return same ? std::string(name_of(steps.front().answer.kind)) : text;
}

std::vector<CaseResult> run_suite(const Manifest& manifest, const std::vector<Case>& cases, const Adapter& adapter,
                                  const SuiteOptions& options, const std::atomic<bool>& cancelled,
                                  const std::function<void(std::size_t done)>& progress) {
  check_idle(adapter, cases, options);
  const std::vector<std::vector<std::size_t>> order = asking_order(cases);
  std::vector<std::optional<CaseResult>> results(cases.size());
  RandomValues random_values;
  AskedAgainBudget budget(options.fresh_elapsed_max, options.search_elapsed_max);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards what follows
  std::size_t done = 0;

  const auto run = [&](std::size_t i, Worker& worker) {
    CaseResult result = run_case(cases[i], worker);
    // A process that the user stopped says nothing about the adapter.
    if (cancelled) return;
    // Only the judgement is needed from here on.
    for (Step& step : result.steps) {
      step.answer.document = Json();
      std::string().swap(step.process.stdout_text);
    }
    const std::lock_guard lock(mutex);
    results[i] = std::move(result);
    progress(++done);
  };
  ask_on_threads(std::min<std::size_t>(options.jobs, order.size()), {&adapter}, [&] {
    std::optional<Worker> worker;
    for (std::size_t turn = 0; !cancelled && (turn = next++) < order.size();) {
      try {
        if (!worker) worker.emplace(manifest, adapter, options, random_values, budget);
        for (const std::size_t i : order[turn]) {
          if (!cancelled) run(i, *worker);
        }
      } catch (...) {
        next = order.size();
        throw;
      }
    }
  });

  std::vector<CaseResult> finished;
  for (std::optional<CaseResult>& result : results) {
    if (result) finished.push_back(std::move(*result));
  }
  judge_ends_after_answers(adapter, finished);
  // Later runs would be judged by what an adapter wrote there.
  if (!cancelled) check_unchanged(manifest, cases);
  return finished;
}

CaseResult run_file_case(const Manifest& manifest, const Case& item, std::span<const std::byte> content,
                         const std::optional<Json>& expected, const Adapter& adapter, const SuiteOptions& options) {
  RandomValues random_values;
  AskedAgainBudget budget(options.fresh_elapsed_max, options.search_elapsed_max);
  std::vector<CaseResult> results;
  ask_on_threads(1, {&adapter}, [&] {
    Worker worker(manifest, adapter, options, random_values, budget);
    results.push_back(judge_case_of(item, worker, [&](const Case& judged, std::vector<Step>& steps) {
      // The adapter may have changed it when it started.
      check_files(manifest, item);
      ask_about({item, judged, expected, content, manifest.directory / item.path}, worker, steps);
    }));
  });
  judge_ends_after_answers(adapter, results);
  return std::move(results.front());
}

std::string repro_command(const Manifest& manifest, const Case& item, const Adapter& adapter,
                          const InputModeOptions& input, const Decisive& step) {
  std::vector<std::string> own = own_command(manifest, item, adapter);
  if (item.operation == Operation::kEncode) {
    own.insert(own.end(), {"--keep", "kept"});
    return join_command(own);
  }
  // In the corpus, shards may have other names than the index says.
  if (is_sharded(item)) return join_command(own);
  const bool needs_this_suite = step.command == Command::kStream && step.mode == InputMode::kShortReads;
  if (needs_this_suite || is_served(step.mode)) {
    own.insert(own.end(), {"--shape", std::string(name_of(step.mode)), "--seed", std::to_string(input.seed)});
    return join_command(own);
  }
  return input_shell_command(step.mode, question_of(manifest.directory / item.path, item, step.command), manifest,
                             adapter, input);
}

Decisive decisive_step(const CaseResult& result, const Profile& profile, const std::vector<InputMode>& modes) {
  if (result.item.operation == Operation::kEncode) return {Command::kEncode, InputMode::kFile};
  for (const Step& step : result.steps) {
    if (step.outcome == result.outcome && is_failure(step.outcome)) return {step.command, step.mode};
  }
  for (const InputMode mode : modes) {
    const std::vector<Command> commands = commands_in(mode, profile);
    if (commands.empty()) continue;
    const bool to_be_verified = required_verdict(result.item) == Verdict::kIntegrityFailure &&
                                std::ranges::find(commands, Command::kVerify) != commands.end();
    return {to_be_verified ? Command::kVerify : commands.front(), mode};
  }
  return {Command::kStream, modes.front()};
}

std::vector<std::string> stale_exclusions(const Manifest& manifest, const Profile& profile) {
  std::set<std::string> features;
  for (const Case& item : manifest.cases) features.insert(item.features.begin(), item.features.end());
  std::set<std::string> stale;
  for (const Abilities* abilities : {&profile.reads, &profile.writes}) {
    std::set_difference(abilities->lacks.begin(), abilities->lacks.end(), features.begin(), features.end(),
                        std::inserter(stale, stale.end()));
  }
  return {stale.begin(), stale.end()};
}

}  // namespace tzmark::conformance
