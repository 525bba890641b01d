// Compares two results; see result_diff.h.
#include "runner/result_diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>

#include "runner/errors.h"
#include "runner/report.h"

namespace tzmark::conformance {
namespace {

constexpr std::size_t kReasonMaxBytes = 300;
constexpr const char* kNotAsked = "not asked";

struct Outcomes {
  std::string outcome, reason;
  std::vector<std::string> rules;
  std::set<std::string> passed_steps;  // such as "decode" or "decode, short-reads", in the input modes of the run
};
using ById = std::map<std::string, Outcomes>;

bool is_pass(const std::string& outcome) { return outcome == "pass" || outcome == "implementation-defined"; }

ById cases_of(const Json& document, const std::string& file) {
  try {
    if (document.at("schema") != "tzmark-conformance")
      throw std::runtime_error("not a result of tzmark conform --json");
    if (document.at("schema_version") != kResultVersion) {
      throw std::runtime_error(fmt::format("its schema_version is {}, and this tzmark compares {}",
                                           dump_line(document.at("schema_version")), kResultVersion));
    }
    for (const char* name : {"adapter", "corpus", "options"}) {
      if (!document.at(name).is_object()) throw std::runtime_error(fmt::format("its {} is no object", name));
    }
    if (!document.at("adapter").at("profile").is_object()) throw std::runtime_error("its profile is no object");
    // Others are sampled, and another run may have sampled others.
    std::set<std::string> modes;
    for (const Json& mode : document.at("shapes")) modes.insert(mode.at("shape").get<std::string>());
    ById cases;
    for (const Json& item : document.at("cases")) {
      const Json& reason = item.at("reason");
      Outcomes found{item.at("outcome"), reason.is_null() ? "" : reason.get<std::string>(), item.at("rules"), {}};
      for (const Json& step : item.at("steps")) {
        const std::string mode = step.at("shape");
        if (!is_pass(step.at("outcome")) || !modes.contains(mode)) continue;
        found.passed_steps.insert(step.at("command").get<std::string>() + (mode == "file" ? "" : ", " + mode));
      }
      const bool is_new = cases.try_emplace(item.at("id").get<std::string>(), std::move(found)).second;
      if (!is_new) throw std::runtime_error(fmt::format("it has the case {} twice", dump_line(item.at("id"))));
    }
    if (cases.empty()) throw std::runtime_error("it has no case");
    return cases;
  } catch (const std::exception& error) {
    throw EnvironmentError(fmt::format("{}: {}", file, problem_of(error)));
  }
}

// The rules that a result keeps.
std::set<std::string> kept_rules(const ById& cases) {
  std::map<std::string, bool> rules;
  for (const auto& [id, found] : cases) {
    if (found.outcome == "skipped") continue;
    for (const std::string& rule : found.rules) {
      bool& keeps = rules.try_emplace(rule, true).first->second;
      keeps = keeps && is_pass(found.outcome);
    }
  }
  std::set<std::string> kept;
  for (const auto& [rule, keeps] : rules) {
    if (keeps) kept.insert(rule);
  }
  return kept;
}

std::vector<std::string> without(const std::set<std::string>& all, const std::set<std::string>& left_out) {
  std::vector<std::string> rest;
  std::ranges::set_difference(all, left_out, std::back_inserter(rest));
  return rest;
}

std::vector<std::string> notes_on(const Json& before, const Json& after) {
  static const std::array<std::pair<const char*, const char*>, 10> kSame = {
      {{"/tzmark_version", "the version of tzmark"},
       {"/corpus/manifest_sha256", "the corpus"},
       {"/adapter/profile/name", "the adapter"},
       {"/adapter/profile/version", "its version"},
       {"/options/policies", "the policies"},
       {"/options/elapsed_max_ns", "the limit of time"},
       {"/options/memory_max_bytes", "the limit of memory"},
       {"/adapter/profile/commands", "the adapter's commands"},
       {"/adapter/profile/reads", "what it reads"},
       {"/adapter/profile/writes", "what it writes"}}};
  std::vector<std::string> notes;
  for (const auto& [pointer, what] : kSame) {
    const Json::json_pointer member(pointer);
    const Json old = before.value(member, Json()), now = after.value(member, Json());
    if (old != now)
      notes.push_back(fmt::format("{} was {}, and is {}", what, compact_dump(old, 100), compact_dump(now, 100)));
  }
  return notes;
}

std::string lines_of(const char* heading, const std::vector<ChangedCase>& changed) {
  if (changed.empty()) return "";
  std::string text = fmt::format("{}:\n", heading);
  for (const ChangedCase& one : changed) {
    text += fmt::format("    {}: {}, now {} ({})\n", one_line(one.id, kReasonMaxBytes), one_line(one.before, 100),
                        one_line(one.after, 40), one_line(fmt::format("{}", fmt::join(one.rules, " ")), 200));
    if (!one.reason.empty()) text += fmt::format("        {}\n", one_line(one.reason, kReasonMaxBytes));
  }
  return text;
}

std::string line_of(const char* heading, const std::vector<std::string>& rules) {
  return rules.empty() ? "" : one_line(fmt::format("{}: {}", heading, fmt::join(rules, " ")), 10'000) + "\n";
}

}  // namespace

ResultDiff diff_results(const Json& before, const std::string& before_file, const Json& after,
                        const std::string& after_file) {
  const ById old = cases_of(before, before_file), now = cases_of(after, after_file);
  ResultDiff diff;
  diff.notes = notes_on(before, after);
  std::set<std::string> ids;
  for (const ById* cases : {&old, &now}) {
    for (const auto& [id, outcomes] : *cases) ids.insert(id);
  }
  for (const std::string& id : ids) {
    const auto was = old.find(id), is = now.find(id);
    const std::string outcome_before = was == old.end() ? kNotAsked : was->second.outcome;
    const std::string outcome_after = is == now.end() ? kNotAsked : is->second.outcome;
    if (is_pass(outcome_before) && is_pass(outcome_after)) {
      const std::vector<std::string> missing = without(was->second.passed_steps, is->second.passed_steps);
      if (!missing.empty()) {
        diff.lost.push_back({id, fmt::format("pass of {}", fmt::join(missing, "; ")), kNotAsked, "", is->second.rules});
      }
      continue;
    }
    if (outcome_before == outcome_after) continue;
    const Outcomes& shown = is == now.end() ? was->second : is->second;
    ChangedCase changed{id, outcome_before, outcome_after, is == now.end() ? "" : shown.reason, shown.rules};
    if (is_pass(outcome_before)) {
      diff.lost.push_back(std::move(changed));
    } else if (is_pass(outcome_after)) {
      diff.gained.push_back(std::move(changed));
    } else {
      diff.others.push_back(std::move(changed));
    }
  }
  const std::set<std::string> kept_before = kept_rules(old), kept_after = kept_rules(now);
  diff.rules_lost = without(kept_before, kept_after);
  diff.rules_gained = without(kept_after, kept_before);
  return diff;
}

std::string text_of(const ResultDiff& diff) {
  std::string text;
  for (const std::string& note : diff.notes) text += fmt::format("note: {}\n", note);
  text += lines_of("lost", diff.lost) + lines_of("gained", diff.gained) + lines_of("otherwise", diff.others);
  text += line_of("rules lost", diff.rules_lost) + line_of("rules gained", diff.rules_gained);
  return text + fmt::format("{} cases lost, {} gained; {} rules lost, {} gained\n", diff.lost.size(),
                            diff.gained.size(), diff.rules_lost.size(), diff.rules_gained.size());
}

}  // namespace tzmark::conformance
