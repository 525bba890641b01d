// Runs the cases of a corpus; see suite.h.
#include "runner/suite.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

#include "runner/command_line.h"
#include "runner/encode_case.h"
#include "runner/errors.h"
#include "runner/explain.h"
#include "runner/file_content.h"
#include "runner/sha256.h"
#include "runner/workers.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

Question question_of(const Manifest& manifest, const Case& item, Command command) {
  return {.command = command,
          .file = manifest.directory / item.path,
          .out = {},
          .key_hex = item.key_hex,
          .passphrase = item.passphrase,
          .feed = nullptr};
}

// The command of this suite that runs one case.
std::vector<std::string> own_command(const Manifest& manifest, const Case& item, const Adapter& adapter) {
  return {"tzmark", "conform", "--adapter", join_command(adapter.argv()), "--corpus", manifest.directory.string(),
          "--only", item.id};
}

// The file of a case, which the adapter must not change. Compares its status after each question, and its content only
// if the status differs.
class WatchedFile {
 public:
  WatchedFile(const Manifest& manifest, const Case& item)
      : path_(manifest.directory / item.path), sha256_(item.sha256), before_(status()) {}

  bool is_as_before() {
    const Status now = status();
    if (now == before_) return true;
    std::error_code none;
    if (!fs::is_regular_file(fs::symlink_status(path_, none)) || sha256_of_file(path_) != sha256_) return false;
    before_ = now;
    return true;
  }

 private:
  // Device, inode, size, and when content and status were changed; zeros if there is none.
  using Status = std::array<std::uint64_t, 7>;

  Status status() const {
    struct stat file {};
    if (::lstat(path_.c_str(), &file) != 0) return {};
    const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
    return {number(file.st_dev),         number(file.st_ino),          number(file.st_size),
            number(file.st_mtim.tv_sec), number(file.st_mtim.tv_nsec), number(file.st_ctim.tv_sec),
            number(file.st_ctim.tv_nsec)};
  }

  fs::path path_;
  std::string sha256_;
  Status before_;
};

// The model knows the .tensors format alone.
model::Description describe_read(std::span<const std::byte> file, const Case& item) {
  return item.layout == "safetensors" ? model::Description{} : model::describe(file, secret_of(item));
}

void run_read_case(const Manifest& manifest, const Case& item, const Adapter& adapter,
                   const std::vector<InputMode>& modes, Stage& stage, const Limits& limits, std::vector<Step>& steps) {
  const std::optional<Json> expected = load_expected(manifest, item);
  const std::vector<std::byte> content = read_file(manifest.directory / item.path);
  // If the first bytes are reason enough to reject, the rest never ends.
  Feed feed = {.bytes = content, .endless = item.pipe_max_bytes.has_value()};
  if (item.pipe_max_bytes) feed.taken_max_bytes = *item.pipe_max_bytes;
  WatchedFile file(manifest, item);
  for (const InputMode mode : modes) {
    for (const Command command : commands_in(mode, adapter.profile())) {
      Question question = question_of(manifest, item, command);
      if (command == Command::kStream) question.feed = &feed;
      Step step = stage.ask(mode, question, manifest, content, adapter, limits);
      judge_step(item, expected, adapter.profile(), step);
      const bool changed = !file.is_as_before();
      if (changed) judge_changed_file(step);
      if (is_failure(step.outcome)) {
        step.explanation = explain(item, step, content, describe_read(content, item));
      }
      steps.push_back(std::move(step));
      // An answer about a changed file says nothing about the case.
      if (changed) return;
    }
  }
}

// The reason why a case is not asked in any of these input modes, if it is not.
std::optional<std::string> absence_from_all(const Case& item, const Profile& profile,
                                            const std::vector<InputMode>& modes) {
  for (const InputMode mode : modes) {
    if (item.operation == Operation::kEncode ? mode == InputMode::kFile : !commands_in(mode, profile).empty()) {
      return std::nullopt;
    }
  }
  return item.operation == Operation::kEncode ? "is an encode case, which has only the input mode file"
                                              : absence(modes.front());
}

CaseResult run_case(const Manifest& manifest, const Case& item, const Adapter& adapter, const SuiteOptions& options,
                    Stage& stage, Nonces& nonces) {
  CaseResult result;
  result.item = item;
  // For skipped cases, too: a changed corpus must not be reported on.
  check_case_file(manifest, item);
  const std::optional<Case> other_layout = as_other_layout(item, adapter.profile());
  auto reason = other_layout ? std::nullopt : excuse(item, adapter.profile());
  if (!reason) reason = absence_from_all(item, adapter.profile(), options.input.modes);
  if (reason) {
    result.reason = *reason;
    return result;
  }
  const Limits limits = options.limits.over(item.limits);
  if (item.operation == Operation::kEncode) {
    result.steps.push_back(run_encode_case(manifest, item, adapter, limits, options.kept, nonces));
  } else {
    run_read_case(manifest, other_layout.value_or(item), adapter, options.input.modes, stage, limits, result.steps);
  }
  const CaseJudgement judgement = judge_case(item, result.steps);
  result.outcome = judgement.outcome;
  result.reason = judgement.reason;
  return result;
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

bool matches(const Case& item, const Selection& selection) {
  const auto id_matches = [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), item.id.c_str(), 0) == 0;
  };
  const auto is_about = [&](const std::string& rule) {
    return std::ranges::find(item.rules, rule) != item.rules.end();
  };
  const auto& [ids, layouts, rules] = selection;
  return (ids.empty() || std::ranges::any_of(ids, id_matches)) &&
         (layouts.empty() || std::ranges::find(layouts, item.layout) != layouts.end()) &&
         (rules.empty() || std::ranges::any_of(rules, is_about));
}

}  // namespace

bool CaseResult::cites_other_rule() const {
  return std::ranges::any_of(steps, [](const Step& step) { return step.cites_other_rule; });
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

std::vector<Case> select_cases(const Manifest& manifest, const Selection& selection) {
  std::vector<Case> cases;
  std::ranges::copy_if(manifest.cases, std::back_inserter(cases),
                       [&](const Case& item) { return matches(item, selection); });
  return cases;
}

std::vector<CaseResult> run_suite(const Manifest& manifest, const std::vector<Case>& cases, const Adapter& adapter,
                                  const SuiteOptions& options, const std::atomic<bool>& cancelled,
                                  const std::function<void(std::size_t done)>& progress) {
  check_idle(adapter, cases, options);
  std::vector<std::optional<CaseResult>> results(cases.size());
  Nonces nonces;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards what follows
  std::size_t done = 0;

  ask_on_threads(std::min<std::size_t>(options.jobs, cases.size()), {&adapter}, [&] {
    std::optional<Stage> stage;
    for (std::size_t i = 0; !cancelled && (i = next++) < cases.size();) {
      try {
        if (!stage) stage.emplace(options.input);
        CaseResult result = run_case(manifest, cases[i], adapter, options, *stage, nonces);
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
      } catch (...) {
        next = cases.size();
        throw;
      }
    }
  });

  std::vector<CaseResult> finished;
  for (std::optional<CaseResult>& result : results) {
    if (result) finished.push_back(std::move(*result));
  }
  judge_ends_after_answers(adapter, finished);
  return finished;
}

std::string repro_command(const Manifest& manifest, const Case& item, const Adapter& adapter,
                          const InputModeOptions& input, const Decisive& step) {
  std::vector<std::string> own = own_command(manifest, item, adapter);
  if (item.operation == Operation::kEncode) {
    own.insert(own.end(), {"--keep", "kept"});
    return join_command(own);
  }
  if (step.command == Command::kStream && step.mode == InputMode::kShortReads) {
    own.insert(own.end(), {"--shape", std::string(name_of(step.mode)), "--seed", std::to_string(input.seed)});
    return join_command(own);
  }
  return input_shell_command(step.mode, question_of(manifest, item, step.command), manifest, adapter, input);
}

Decisive decisive_step(const CaseResult& result, const Profile& profile, const std::vector<InputMode>& modes) {
  if (result.item.operation == Operation::kEncode) return {Command::kEncode, InputMode::kFile};
  for (const Step& step : result.steps) {
    if (step.outcome == result.outcome && is_failure(step.outcome)) return {step.command, step.mode};
  }
  for (const InputMode mode : modes) {
    const std::vector<Command> commands = commands_in(mode, profile);
    if (commands.empty()) continue;
    const bool to_be_verified = result.item.verdict == Verdict::kIntegrityFailure &&
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
