// Asks failed questions again in a fresh process; see asked_again.h.
#include "runner/asked_again.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "runner/file_format.h"
#include "runner/short_sequence.h"

namespace tzmark::conformance {
namespace {

// Takes the time of its life from a budget.
class BudgetTimer {
 public:
  explicit BudgetTimer(std::atomic<std::int64_t>& left_ns) : left_ns_(left_ns) {}
  ~BudgetTimer() { left_ns_ -= (std::chrono::steady_clock::now() - began_).count(); }
  BudgetTimer(const BudgetTimer&) = delete;
  BudgetTimer& operator=(const BudgetTimer&) = delete;

 private:
  std::atomic<std::int64_t>& left_ns_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// "decode index-a, verify (pipe) index-b"
std::string list_of(const std::vector<EarlierQuestion>& questions) {
  constexpr std::size_t kShownMax = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(questions.size(), kShownMax); ++i) {
    const EarlierQuestion& question = questions[i];
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", label(question.command, question.mode), question.id);
  }
  if (questions.size() > kShownMax) text += fmt::format(" and {} more", questions.size() - kShownMax);
  return text;
}

std::string describe(const OnlyAfterEarlier& only_after) {
  const std::string text = "only after earlier questions; a fresh process passes";
  if (only_after.questions.empty()) {
    return fmt::format("{}, and so does one that is asked the same {} again", text, only_after.asked);
  }
  return fmt::format("{}, and fails after {}{}", text, list_of(only_after.questions),
                     only_after.shortest ? "" : " (not fully searched)");
}

}  // namespace

Question question_of(std::filesystem::path file, const Case& item, Command command) {
  return {.command = command,
          .file = std::move(file),
          .out = {},
          .key_hex = item.key_hex,
          .passphrase = item.passphrase,
          .feed = nullptr};
}

std::string_view suffix_of(const Case& item) { return suffix_of_layout(item.layout); }

void AskedAgain::examine(const Case& item, Step& step, RandomValues& random_values, StagedFile* staged,
                         const Ask& ask) {
  if (!step.service) return;
  std::vector<Asked> earlier;
  std::ranges::copy_if(asked_, std::back_inserter(earlier),
                       [&](const Asked& asked) { return asked.service == *step.service; });
  note(item, step);
  // The first question of a process was asked of a fresh one.
  if (!is_failure(step.outcome)) return;
  if (earlier.empty()) {
    step.fails_afresh = true;
    return;
  }
  if (budget_.fresh_left_ns <= 0) return;
  {
    const BudgetTimer timer(budget_.fresh_left_ns);
    adapter_.end_services();
    const Step again = ask(random_values);
    note(item, again);
    if (!again.service) {
      step.reason += fmt::format("; could not be asked again: {}", again.reason);
      return;
    }
    step.fails_afresh = is_failure(again.outcome);
  }
  if (*step.fails_afresh) return;
  step.only_after = find_sequence(earlier, item, step, staged, ask);
  // What the last process was asked must not fail the cases that follow.
  adapter_.end_services();
  step.reason += fmt::format("; {}", describe(*step.only_after));
}

void AskedAgain::note(const Case& item, const Step& step) {
  if (step.service) asked_.push_back({&item, step.command, step.mode, *step.service});
}

Step AskedAgain::repeat(const Asked& asked, StagedFile* staged, RandomValues& random_values) {
  const Case& item = *asked.item;
  const Limits limits = limits_.over(item.limits);
  if (asked.command == Command::kEncode) {
    return run_encode_case(manifest_, item, adapter_, limits, std::nullopt, random_values);
  }
  const std::vector<std::byte> content = read_case_file(manifest_, item);
  std::optional<StagedFile> other;
  const bool is_like_staged = staged != nullptr && staged->suffix() == suffix_of(item);
  if (!is_like_staged || !item.shards.empty() || !item.directory_placeholder.empty()) {
    staged = &other.emplace(content, suffix_of(item), read_shards(manifest_, item), item.directory_placeholder);
  } else {
    staged->put(content);
  }
  Question question = question_of(staged->path(), item, asked.command);
  question.directory = staged->directory();
  return stage_.ask(asked.mode, std::move(question), other ? other->content() : content, adapter_, limits);
}

OnlyAfterEarlier AskedAgain::find_sequence(const std::vector<Asked>& earlier, const Case& item, const Step& step,
                                           StagedFile* staged, const Ask& ask) {
  const auto put_back = [&] {
    if (staged != nullptr) staged->put(staged->content());
  };
  const BudgetTimer timer(budget_.search_left_ns);
  const auto fails_once_after = [&](const std::vector<std::size_t>& steps) {
    adapter_.end_services();
    RandomValues random_values;
    std::optional<std::uint64_t> service;
    for (const std::size_t i : steps) {
      const Step repeated = repeat(earlier[i], staged, random_values);
      note(*earlier[i].item, repeated);
      // A process that is replaced on the way has forgotten what came before.
      if (!repeated.service || (service && service != repeated.service)) return false;
      service = repeated.service;
    }
    put_back();
    const Step again = ask(random_values);
    note(item, again);
    return again.outcome == step.outcome && again.service == service;
  };
  // Twice, for a failure at random has no cause among the questions.
  const auto fails_after = [&](const std::vector<std::size_t>& steps) {
    return fails_once_after(steps) && fails_once_after(steps);
  };
  const ShortSequence found =
      find_short_sequence(earlier.size(), fails_after, std::chrono::nanoseconds(budget_.search_left_ns));
  put_back();
  OnlyAfterEarlier only_after{.asked = earlier.size(), .questions = {}, .shortest = found.shortest, .repeat = {}};
  std::vector<Asked> sequence;
  for (const std::size_t i : found.steps) {
    sequence.push_back(earlier[i]);
    only_after.questions.push_back({earlier[i].item->id, earlier[i].command, earlier[i].mode});
  }
  if (found.shortest) {
    sequence.push_back({&item, step.command, step.mode, 0});
    only_after.repeat = repeat_command(sequence);
  }
  return only_after;
}

std::string AskedAgain::repeat_command(const std::vector<Asked>& questions) const {
  std::vector<Question> served;
  for (const Asked& asked : questions) {
    const Case& item = *asked.item;
    const bool secret = (item.key_hex || item.passphrase) && !secrets_are_public_;
    // Other input modes, the data of a specification, and the shards of an index need more than a line.
    const bool is_one_file = asked.command != Command::kEncode && !is_sharded_layout(item.layout);
    if (secret || !is_one_file || asked.mode != InputMode::kFile) return "";
    served.push_back(question_of(manifest_.directory / item.path, item, asked.command));
  }
  return adapter_.served_shell_command(served);
}

}  // namespace tzmark::conformance
