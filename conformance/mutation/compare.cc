// Compares two implementations; see compare.h.
#include "mutation/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "model/text.h"
#include "mutation/assess.h"
#include "mutation/minimize.h"
#include "runner/difference.h"
#include "runner/staged_file.h"
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

// A command in an input mode.
struct Way {
  Command command = Command::kDecode;
  InputMode mode = InputMode::kFile;
};

// Asks both implementations about files of its own. One object belongs to one thread.
class Questions {
 public:
  explicit Questions(const AgainstOptions& options) : options_(options), stage_(options.input) {}

  // Puts the file where the questions after it find it.
  void stage_file(const FileFormat& format, model::Bytes bytes) {
    format_ = &format;
    bytes_ = bytes;
    // Another name for each, for implementations that remember what they read.
    file_.emplace(bytes_, format_->suffix);
  }

  // Nothing if the input mode cannot be had for this implementation.
  std::optional<Answered> ask(const Adapter& adapter, const Way& way, const FileSecret& secret) {
    Feed feed;
    feed.bytes = bytes_;
    Question question{way.command, file_->path(), {}, file_->directory(), secret.key_hex, secret.passphrase, nullptr};
    if (way.command == Command::kStream) question.feed = &feed;
    const Limits limits = options_.limits.over(limits_for_file(bytes_.size()));
    const Step step = stage_.ask(way.mode, question, bytes_, adapter, limits);
    // The next question is about the same file.
    if (step.changed_file) stage_file(*format_, bytes_);
    if (!step.untried.empty()) {
      untried_.emplace(way.mode, fmt::format("{}: {}", adapter.profile().name, step.untried));
      return std::nullopt;
    }
    const bool answered = step.answer.kind != AnswerKind::kNone;
    return Answered{
        std::string(answered ? name_of(step.answer.kind) : name_of(outcome_without_answer(step.process.end))),
        step.answer};
  }

  const std::map<InputMode, std::string>& untried() const { return untried_; }

 private:
  const AgainstOptions& options_;
  Stage stage_;
  std::optional<StagedFile> file_;
  const FileFormat* format_ = nullptr;
  model::Bytes bytes_;
  std::map<InputMode, std::string> untried_;
};

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
    for (const InputMode mode : options.input.modes) {
      const std::vector<Command> of_second = commands_in(mode, second.profile());
      for (const Command command : commands_in(mode, first.profile())) {
        if (std::ranges::find(of_second, command) != of_second.end()) ways_.push_back({command, mode});
      }
    }
  }

  // The commands and input modes that both have.
  const std::vector<Way>& ways() const { return ways_; }

  bool is_excused(const Assessment& assessment) const {
    return ways_.empty() || excuse(assessment.item, first_->profile()) || excuse(assessment.item, second_->profile());
  }

  struct Seen {
    Behaviour behaviour;
    std::string first_says;
    std::string second_says;
  };

  // Asks only these. Nothing if the answers do not differ.
  std::optional<Seen> look(Questions& asking, const FileFormat& format, model::Bytes bytes, const FileSecret& secret,
                           const Assessment& assessment, const std::vector<Way>& ways) const {
    asking.stage_file(format, bytes);
    Seen seen;
    const auto& rules = assessment.item.rules;
    seen.behaviour.rule = rules.empty() ? "" : rules.front();
    for (const Way& way : ways) {
      const std::optional<Answered> first = asking.ask(*first_, way, secret);
      if (!first) continue;
      const std::optional<Answered> second = asking.ask(*second_, way, secret);
      if (!second) continue;
      const std::optional<AnswerPair> pair = difference_of(way, *first, *second);
      if (!pair) continue;
      seen.behaviour.pairs.push_back(*pair);
      if (seen.first_says.empty()) seen.first_says = first->says();
      if (seen.second_says.empty()) seen.second_says = second->says();
    }
    return seen.behaviour.pairs.empty() ? std::nullopt : std::optional(seen);
  }

  // Minimizes the file of a group while the two differ in the same way.
  void shrink(Questions& asking, DifferenceGroup& group, const std::atomic<bool>& cancelled) const {
    std::vector<Way> ways;
    for (const AnswerPair& pair : group.behaviour.pairs) ways.push_back({pair.command, pair.mode});
    const FileSecret secret = group.smallest.secret;
    const FileFormat& format = *group.smallest.format;
    const std::vector<std::byte> file = std::move(group.smallest.bytes);
    const auto same = [&](model::Bytes candidate) {
      if (cancelled) return false;
      const Assessment assessment = assess(format, candidate, secret.key_hex, secret.passphrase);
      const auto& rules = assessment.item.rules;
      if ((rules.empty() ? "" : rules.front()) != group.behaviour.rule || is_excused(assessment)) return false;
      const std::optional<Seen> seen = look(asking, format, candidate, secret, assessment, ways);
      return seen && seen->behaviour == group.behaviour;
    };
    Minimized minimized =
        minimize(format, file, to_model(secret), same, {.elapsed_max = options_->minimize_elapsed_max});
    group.smallest.bytes = std::move(minimized.file);
    group.finished = minimized.finished;
    const Assessment assessment = assess(format, group.smallest.bytes, secret.key_hex, secret.passphrase);
    if (cancelled) return;
    if (const auto seen = look(asking, format, group.smallest.bytes, secret, assessment, ways)) {
      group.first_says = seen->first_says;
      group.second_says = seen->second_says;
    }
  }

 private:
  std::optional<AnswerPair> difference_of(const Way& way, const Answered& first, const Answered& second) const {
    AnswerPair pair{way.command, way.mode, first.kind, second.kind, ""};
    if (first.kind != second.kind) return pair;
    if (first.kind == "accepted" && gives_content(way.command)) {
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
  std::vector<Way> ways_;
};

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
    text +=
        fmt::format("{}{}: {}, {}", text.empty() ? "" : "; ", label(pair.command, pair.mode), pair.first, pair.second);
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
    Questions asking(options);
    while (!cancelled) {
      std::unique_lock lock(mutex);
      std::optional<ComparedFile> compared = next();
      const std::size_t number = given++;
      if (!compared) {
        comparison.untried.insert(asking.untried().begin(), asking.untried().end());
        return;
      }
      lock.unlock();
      const Assessment assessment =
          assess(*compared->format, compared->bytes, compared->secret.key_hex, compared->secret.passphrase);
      const bool excused = comparing.is_excused(assessment);
      std::optional<Comparing::Seen> seen;
      if (!excused)
        seen =
            comparing.look(asking, *compared->format, compared->bytes, compared->secret, assessment, comparing.ways());
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
    Questions asking(options);
    for (std::size_t i = 0; !cancelled && (i = next_group++) < comparison.groups.size();) {
      comparing.shrink(asking, comparison.groups[i], cancelled);
      const std::lock_guard lock(mutex);
      progress(++done);
    }
  });
  return comparison;
}

}  // namespace tzmark::conformance::mutation
