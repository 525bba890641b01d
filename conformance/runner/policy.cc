// The answers that a run requires; see policy.h.
#include "runner/policy.h"

#include <fmt/format.h>

#include "program/suggestion.h"
#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

struct Setting {
  std::string name;
  bool accepts;
};

Setting parse_setting(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const std::string answer = equals == text.npos ? "" : text.substr(equals + 1);
  if (equals == 0 || (answer != "accept" && answer != "reject")) {
    throw UsageError(fmt::format("--policy {}: not NAME=accept or NAME=reject", text));
  }
  return {text.substr(0, equals), answer == "accept"};
}

const OpenChoice& find_choice(const Manifest& manifest, const std::string& name) {
  const auto found = manifest.open_choices.find(name);
  if (found != manifest.open_choices.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, choice] : manifest.open_choices) names.push_back(known);
  throw UsageError(fmt::format("--policy: the corpus has no open choice '{}'{}", name, suggestion(name, names)));
}

}  // namespace

Policies::Policies(const Manifest& manifest, const std::vector<std::string>& settings, bool strict) : strict_(strict) {
  for (const std::string& text : settings) {
    const Setting setting = parse_setting(text);
    const OpenChoice& choice = find_choice(manifest, setting.name);
    const auto [at, is_new] = in_force_.try_emplace(setting.name, Policy{setting.accepts, choice.rejected_by_verify});
    if (!is_new && at->second.accepts != setting.accepts) {
      throw UsageError(fmt::format("--policy {}: both accept and reject", setting.name));
    }
  }
  if (!strict) return;
  if (manifest.open_choices.empty()) throw UsageError("--strict: the corpus names no open choices");
  for (const auto& [name, choice] : manifest.open_choices) {
    in_force_.try_emplace(name, Policy{choice.tzmark_accepts, choice.rejected_by_verify});
  }
}

void Policies::apply(Case& item) const {
  if (item.verdict != Verdict::kImplementationDefined || !item.choice_name) return;
  apply({*item.choice_name}, item);
}

void Policies::apply(const std::vector<std::string>& choices, Case& item) const {
  std::optional<Policy> settled;
  bool all_settled = true;
  for (const std::string& name : choices) {
    const auto found = in_force_.find(name);
    if (found == in_force_.end()) {
      all_settled = false;
      continue;
    }
    const Policy& policy = found->second;
    // A rejection counts more than an acceptance, and one by decode more than one by verify.
    const bool stronger = !settled || (settled->accepts && !policy.accepts) ||
                          (!policy.accepts && settled->rejected_by_verify && !policy.rejected_by_verify);
    if (!stronger) continue;
    settled = policy;
    if (!policy.accepts) item.choice_name = name;
  }
  // What is rejected for one choice is rejected whatever the answers to the others are.
  const bool rejects = settled && !settled->accepts;
  if (rejects || all_settled) item.policy = settled;
}

}  // namespace tzmark::conformance
