// A run as a document of the Test Anything Protocol, version 14; see report.h.
#include <fmt/format.h>

#include "runner/report.h"

namespace tzmark::conformance {
namespace {

constexpr std::size_t kTextMaxBytes = 1000;

// In descriptions and directives, a number sign begins a directive.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : one_line(text, kTextMaxBytes)) {
    if (c == '#' || c == '\\') result += '\\';
    result += c;
  }
  return Json::parse(dump_line(result)).get<std::string>();
}

// JSON is YAML too.
std::string diagnosis(const CaseResult& result) {
  const Json members = {{"outcome", name_of(result.outcome)},
                        {"layout", result.item.layout},
                        {"rules", result.item.rules},
                        {"why", result.item.why},
                        {"reason", one_line(result.reason, kTextMaxBytes)}};
  std::string text = "  ---\n";
  for (const auto& [name, value] : members.items()) text += fmt::format("  {}: {}\n", name, dump_line(value));
  return text + "  ...\n";
}

}  // namespace

std::string tap_report(const SuiteRun& run) {
  std::string text = fmt::format("TAP version 14\n# {} {}\n", escaped(run.adapter->profile().name),
                                 escaped(run.adapter->profile().version));
  std::vector<std::string> problems = run.known_problems;
  if (run.skipped_too_many()) problems.push_back(fmt::format("at most {} cases are skipped", *run.skipped_max));
  if (totals_of(run.results).ran() == 0) problems.emplace_back("some case runs");
  text += fmt::format("1..{}\n", run.results.size() + problems.size());
  std::size_t number = 0;
  for (const CaseResult& result : run.results) {
    const bool failed = is_failure(result.outcome);
    text += fmt::format("{} {} - {}", failed ? "not ok" : "ok", ++number, escaped(result.item.id));
    if (result.outcome == Outcome::kSkipped) text += " # SKIP " + escaped(result.reason);
    if (failed && result.known) text += " # todo known failure: " + escaped(*result.known);
    text += '\n';
    if (failed) text += diagnosis(result);
  }
  for (const std::string& problem : problems) text += fmt::format("not ok {} - {}\n", ++number, escaped(problem));
  return text;
}

}  // namespace tzmark::conformance
