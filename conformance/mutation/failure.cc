// What an implementation does wrong with a file; see failure.h.
#include "mutation/failure.h"

#include <algorithm>
#include <cctype>

#include "model/text.h"
#include "mutation/assess.h"
#include "runner/explain.h"
#include "runner/staged_file.h"

namespace tzmark::conformance::mutation {
namespace {

// What a message says of every file: up to a colon, without numbers and what is in quotation marks.
std::string general(std::string_view message) {
  std::string text;
  char quote = '\0';
  for (const char c : message.substr(0, message.find(':'))) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"' || c == '`') {
      quote = c;
    } else if (!std::isdigit(static_cast<unsigned char>(c))) {
      text += c;
    }
  }
  return text;
}

std::string sign_of(const Step& step) {
  switch (step.outcome) {
    case Outcome::kRejectedValid:
      return step.answer.rejection.rule.value_or(general(step.answer.rejection.message));
    case Outcome::kWrongData:
      return step.difference ? member_of(step.difference->pointer) : "";
    case Outcome::kCrash: {
      if (step.process.end == ProcessEnd::kSignaled) return std::to_string(step.process.signal);
      if (step.answer.caught) return general(step.answer.text);
      return general(step.answer.text) + "; " + general(last_line(step.process.stderr_tail));
    }
    default:
      return "";
  }
}

std::string first_rule(const model::Description& description, Command command) {
  const auto refuses = gives_content(command) ? model::refuses_decode : model::refuses_verify;
  const auto found = std::ranges::find_if(description.defects, refuses);
  return found == description.defects.end() ? "" : found->rule;
}

class Inquiry {
 public:
  Inquiry(const Adapter& adapter, const FileFormat& format, model::Bytes file, const FileSecret& secret,
          const LimitOverrides& limits)
      : adapter_(&adapter), format_(&format), file_(file), secret_(&secret), limits_(&limits) {
    assessment_ = assess(format, file, secret.key_hex, secret.passphrase);
  }

  const std::vector<std::string>& broken() const { return assessment_.item.rules; }
  std::string rule(Command command) const { return first_rule(assessment_.description, command); }

  std::optional<Failure> ask(Command command) {
    if (!adapter_->profile().has(command) || excuse(assessment_.item, adapter_->profile())) return std::nullopt;
    const StagedFile staged(file_, format_->suffix);
    Feed feed;
    feed.bytes = file_;
    Question question{command, staged.path(), {}, staged.directory(), secret_->key_hex, secret_->passphrase, nullptr};
    if (command == Command::kStream) question.feed = &feed;
    Step step = adapter_->ask(question, limits_->over(limits_for_file(file_.size(), secret_->passphrase.has_value())));
    step.changed_file = !holds(staged.path(), file_);
    judge_step(assessment_.item, assessment_.expected, adapter_->profile(), step);
    if (!is_failure(step.outcome)) return std::nullopt;
    return Failure{command,    step.outcome, rule(command), sign_of(step), {broken().begin(), broken().end()},
                   step.reason};
  }

 private:
  const Adapter* adapter_;
  const FileFormat* format_;
  model::Bytes file_;
  const FileSecret* secret_;
  const LimitOverrides* limits_;
  Assessment assessment_;
};

}  // namespace

std::string member_of(const std::string& pointer) {
  std::string member;
  for (std::size_t at = 0; at < pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', at + 1), pointer.size());
    const std::string word = pointer.substr(at, end - at);
    if (word.size() < 2 || !std::isdigit(static_cast<unsigned char>(word[1]))) member += word;
    at = end;
  }
  return member;
}

model::Secret to_model(const FileSecret& secret) {
  Case item;
  item.key_hex = secret.key_hex;
  item.passphrase = secret.passphrase;
  return secret_of(item);
}

bool is_same_reason(const Failure& a, const Failure& b) {
  const bool breaks_more = !std::includes(a.broken.begin(), a.broken.end(), b.broken.begin(), b.broken.end());
  return a.command == b.command && a.outcome == b.outcome && a.rule == b.rule && a.sign == b.sign && !breaks_more;
}

std::optional<Failure> find_failure(const Adapter& adapter, const FileFormat& format, model::Bytes file,
                                    const FileSecret& secret, const std::vector<Command>& commands,
                                    const LimitOverrides& limits) {
  Inquiry inquiry(adapter, format, file, secret, limits);
  std::optional<Failure> worst;
  for (const Command command : commands) {
    std::optional<Failure> failure = inquiry.ask(command);
    if (failure && (!worst || failure->outcome < worst->outcome)) worst = std::move(failure);
  }
  return worst;
}

bool fails_alike(const Adapter& adapter, const FileFormat& format, model::Bytes file, const FileSecret& secret,
                 const Failure& failure, const LimitOverrides& limits) {
  Inquiry inquiry(adapter, format, file, secret, limits);
  const auto& broken = inquiry.broken();
  const bool breaks_more =
      std::ranges::any_of(broken, [&](const std::string& rule) { return !failure.broken.contains(rule); });
  if (breaks_more || inquiry.rule(failure.command) != failure.rule) return false;
  const std::optional<Failure> now = inquiry.ask(failure.command);
  return now && is_same_reason(failure, *now);
}

}  // namespace tzmark::conformance::mutation
