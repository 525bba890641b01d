// Compares two implementations; see compare.h.
#include "mutation/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "model/text.h"
#include "mutation/assess.h"
#include "mutation/minimize.h"
#include "runner/difference.h"
#include "runner/scratch_file.h"
#include "runner/workers.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::size_t kSaysMaxBytes = 200;

struct Answered {
  std::string kind;
  Answer answer;

  // One line; empty for an acceptance.
  std::string says() const {
    const std::string& text = kind == "rejected" ? answer.rejection.message : answer.text;
    const std::string rule = kind == "rejected" && answer.rejection.rule ? *answer.rejection.rule + ": " : "";
    return kind == "accepted" ? "" : one_line(rule + text, kSaysMaxBytes);
  }
};

Answered ask(const Adapter& adapter, const Question& question, const LimitOverrides& limits, std::uint64_t file_bytes) {
  const Step step = adapter.ask(question, limits.over(limits_for_file(file_bytes)));
  const bool answered = step.answer.kind != AnswerKind::kNone;
  return {std::string(answered ? name_of(step.answer.kind) : name_of(outcome_without_answer(step.process.end))),
          step.answer};
}

// Members that one of the two does not print are not compared.
Json without(Json document, const std::set<std::string>& members) {
  const auto erase = [&](Json& object) {
    for (const std::string& member : members) object.erase(member);
  };
  if (!document.is_object()) return document;
  erase(document);
  if (document.contains("tensors") && document["tensors"].is_array()) {
    for (Json& tensor : document["tensors"]) {
      if (tensor.is_object()) erase(tensor);
    }
  }
  return document;
}

class Comparing {
 public:
  Comparing(const Adapter& first, const Adapter& second, const AgainstOptions& options)
      : first_(&first), second_(&second), options_(&options) {
    omitted_ = first.profile().reads.omits;
    omitted_.insert(second.profile().reads.omits.begin(), second.profile().reads.omits.end());
  }

  bool is_excused(const Assessment& assessment) const {
    return excuse(assessment.item, first_->profile()) || excuse(assessment.item, second_->profile());
  }

  struct Seen {
    Behaviour behaviour;
    std::string first_says;
    std::string second_says;
  };

  // Asks only these commands. Nothing if the answers do not differ.
  std::optional<Seen> look(model::Bytes bytes, const FileSecret& secret, const Assessment& assessment,
                           const std::vector<Command>& commands) const {
    const ScratchFile scratch(model::text_of(bytes));
    Seen seen;
    const auto& rules = assessment.item.rules;
    seen.behaviour.rule = rules.empty() ? "" : rules.front();
    for (const Command command : commands) {
      if (!first_->profile().has(command) || !second_->profile().has(command)) continue;
      Feed feed;
      feed.bytes = bytes;
      Question question{command, scratch.path(), {}, secret.key_hex, secret.passphrase, nullptr};
      if (command == Command::kStream) question.feed = &feed;
      const Answered first = ask(*first_, question, options_->limits, bytes.size());
      const Answered second = ask(*second_, question, options_->limits, bytes.size());
      const std::optional<AnswerPair> pair = difference_of(command, first, second);
      if (!pair) continue;
      seen.behaviour.pairs.push_back(*pair);
      if (seen.first_says.empty()) seen.first_says = first.says();
      if (seen.second_says.empty()) seen.second_says = second.says();
    }
    return seen.behaviour.pairs.empty() ? std::nullopt : std::optional(seen);
  }

  // Minimizes the file of a group while the two differ in the same way.
  void shrink(DifferenceGroup& group, const std::atomic<bool>& cancelled) const {
    std::vector<Command> commands;
    for (const AnswerPair& pair : group.behaviour.pairs) commands.push_back(pair.command);
    const FileSecret secret = group.smallest.secret;
    const std::vector<std::byte> file = std::move(group.smallest.bytes);
    const auto same = [&](model::Bytes candidate) {
      if (cancelled) return false;
      const Assessment assessment = assess(candidate, secret.key_hex, secret.passphrase);
      const auto& rules = assessment.item.rules;
      if ((rules.empty() ? "" : rules.front()) != group.behaviour.rule || is_excused(assessment)) return false;
      const std::optional<Seen> seen = look(candidate, secret, assessment, commands);
      return seen && seen->behaviour == group.behaviour;
    };
    Minimized minimized = minimize(file, to_model(secret), same, {.elapsed_max = options_->minimize_elapsed_max});
    group.smallest.bytes = std::move(minimized.file);
    group.finished = minimized.finished;
    const Assessment assessment = assess(group.smallest.bytes, secret.key_hex, secret.passphrase);
    if (cancelled) return;
    if (const auto seen = look(group.smallest.bytes, secret, assessment, commands)) {
      group.first_says = seen->first_says;
      group.second_says = seen->second_says;
    }
  }

 private:
  std::optional<AnswerPair> difference_of(Command command, const Answered& first, const Answered& second) const {
    AnswerPair pair{command, first.kind, second.kind, ""};
    if (first.kind != second.kind) return pair;
    if (first.kind == "accepted" && gives_content(command)) {
      const auto difference =
          first_difference(without(first.answer.document, omitted_), without(second.answer.document, omitted_), {});
      if (difference) pair.sign = member_of(difference->pointer);
      return difference ? std::optional(pair) : std::nullopt;
    }
    if (first.kind != "rejected" || !options_->compare_rules) return std::nullopt;
    const auto& rule = first.answer.rejection.rule;
    const auto& other = second.answer.rejection.rule;
    pair.sign = fmt::format("{}, {}", rule.value_or("no rule"), other.value_or("no rule"));
    return rule != other ? std::optional(pair) : std::nullopt;
  }

  const Adapter* first_;
  const Adapter* second_;
  const AgainstOptions* options_;
  std::set<std::string> omitted_;
};

const std::vector<Command> kCommands = {Command::kDecode, Command::kVerify, Command::kStream};

// Collects differences from all threads, in an order that does not depend on threads.
class Grouping {
 public:
  void add(ComparedFile&& compared, std::size_t number, Comparing::Seen&& seen) {
    Members& members = members_of(seen.behaviour);
    const auto rank = [](const ComparedFile& each) { return std::pair(each.bytes.size(), each.id); };
    const bool smaller = members.places.empty() || rank(compared) < rank(members.group.smallest);
    members.places.emplace_back(number, compared.id);
    if (!smaller) return;
    members.group.smallest = std::move(compared);
    members.group.first_says = std::move(seen.first_says);
    members.group.second_says = std::move(seen.second_says);
  }

  std::vector<DifferenceGroup> take() {
    std::vector<DifferenceGroup> groups;
    for (auto& [group, places] : members_) {
      std::ranges::sort(places);
      for (auto& [number, id] : places) group.ids.push_back(std::move(id));
    }
    std::ranges::sort(members_, [](const Members& a, const Members& b) {
      return std::pair(b.places.size(), a.places.front().first) < std::pair(a.places.size(), b.places.front().first);
    });
    for (Members& members : members_) groups.push_back(std::move(members.group));
    return groups;
  }

 private:
  struct Members {
    DifferenceGroup group;
    std::vector<std::pair<std::size_t, std::string>> places;  // the numbers of the files, and their ids
  };

  Members& members_of(const Behaviour& behaviour) {
    const auto found =
        std::ranges::find_if(members_, [&](const Members& each) { return each.group.behaviour == behaviour; });
    if (found != members_.end()) return *found;
    members_.emplace_back().group.behaviour = behaviour;
    return members_.back();
  }

  std::vector<Members> members_;
};

}  // namespace

std::string describe(const Behaviour& behaviour) {
  std::string text;
  for (const AnswerPair& pair : behaviour.pairs) {
    text += fmt::format("{}{}: {}, {}", text.empty() ? "" : "; ", name_of(pair.command), pair.first, pair.second);
    if (!pair.sign.empty()) text += fmt::format(" ({})", pair.sign);
  }
  return text;
}

Comparison compare(const Adapter& first, const Adapter& second,
                   const std::function<std::optional<ComparedFile>()>& next, const AgainstOptions& options,
                   const std::atomic<bool>& cancelled, const std::function<void(std::size_t done)>& progress) {
  const Comparing comparing(first, second, options);
  Comparison comparison;
  Grouping grouping;
  std::mutex mutex;  // guards these two, what follows, and the calls of next and progress
  std::size_t given = 0;
  std::size_t done = 0;
  ask_on_threads(options.jobs, {&first, &second}, [&] {
    while (!cancelled) {
      std::unique_lock lock(mutex);
      std::optional<ComparedFile> compared = next();
      const std::size_t number = given++;
      lock.unlock();
      if (!compared) return;
      const Assessment assessment = assess(compared->bytes, compared->secret.key_hex, compared->secret.passphrase);
      const bool excused = comparing.is_excused(assessment);
      std::optional<Comparing::Seen> seen;
      if (!excused) seen = comparing.look(compared->bytes, compared->secret, assessment, kCommands);
      // A process that the user stopped says nothing about its adapter.
      if (cancelled) return;
      lock.lock();
      ++(excused ? comparison.excused : comparison.compared);
      if (seen) ++comparison.differing;
      if (seen) grouping.add(std::move(*compared), number, std::move(*seen));
      progress(++done);
    }
  });
  comparison.groups = grouping.take();
  std::atomic<std::size_t> next_group = 0;
  ask_on_threads(options.jobs, {&first, &second}, [&] {
    for (std::size_t i = 0; !cancelled && (i = next_group++) < comparison.groups.size();) {
      comparing.shrink(comparison.groups[i], cancelled);
      const std::lock_guard lock(mutex);
      progress(++done);
    }
  });
  return comparison;
}

}  // namespace tzmark::conformance::mutation
