// The JUnit XML of a run, one suite a layout; see report.h.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tinyxml2.h>

#include <map>

#include "runner/report.h"

namespace tzmark::conformance {
namespace {

using Results = std::vector<const CaseResult*>;

std::chrono::nanoseconds elapsed_of(const CaseResult& result) {
  std::chrono::nanoseconds elapsed{0};
  for (const Step& step : result.steps) elapsed += step.process.elapsed;
  return elapsed;
}

std::string seconds(std::chrono::nanoseconds elapsed) { return fmt::format("{:.3f}", seconds_of(elapsed)); }

// XML has no way to write most control characters, the last two characters of the first plane, nor bytes that are not
// UTF-8. It has for U+007F to U+009F, which would reach a terminal that shows the report.
std::string printable(const std::string& text) {
  const std::string utf8 = dump_line(text);
  std::string result;
  for (const char c : Json::parse(utf8).get<std::string>()) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= ' ' && byte != 0x7f) || c == '\n' || c == '\t') result += c;
    const bool ends_in_control =
        result.size() > 1 && result[result.size() - 2] == '\xc2' && byte >= 0x80 && byte <= 0x9f;
    if (ends_in_control) result.resize(result.size() - 2);
    if (result.ends_with("\xef\xbf\xbe") || result.ends_with("\xef\xbf\xbf")) result.resize(result.size() - 3);
  }
  return result;
}

void print_totals(tinyxml2::XMLPrinter& xml, const Totals& totals, std::chrono::nanoseconds elapsed) {
  xml.PushAttribute("tests", static_cast<std::int64_t>(totals.ran() + totals.skipped));
  xml.PushAttribute("failures", static_cast<std::int64_t>(totals.failed - totals.known));
  xml.PushAttribute("errors", 0);
  xml.PushAttribute("skipped", static_cast<std::int64_t>(totals.skipped + totals.known));
  xml.PushAttribute("time", seconds(elapsed).c_str());
}

void print_case(tinyxml2::XMLPrinter& xml, const CaseResult& result) {
  xml.OpenElement("testcase");
  xml.PushAttribute("classname", printable("tzmark." + result.item.layout).c_str());
  xml.PushAttribute("name", printable(result.item.id).c_str());
  xml.PushAttribute("time", seconds(elapsed_of(result)).c_str());
  if (is_failure(result.outcome) && !result.known) {
    xml.OpenElement("failure");
    xml.PushAttribute("type", std::string(name_of(result.outcome)).c_str());
    xml.PushAttribute("message", printable(result.reason).c_str());
    std::string text = fmt::format("verdict {}, rules {}: {}\n", name_of(result.item.verdict),
                                   fmt::join(result.item.rules, " "), result.item.why);
    for (const Step& step : result.steps) {
      if (is_failure(step.outcome)) text += fmt::format("\n{}: {}\n", label(step.command, step.mode), step.reason);
      if (!step.process.stderr_tail.empty()) {
        text += fmt::format("\nstderr of {}:\n{}", label(step.command, step.mode), step.process.stderr_tail);
      }
    }
    xml.PushText(printable(text).c_str());
    xml.CloseElement();
  } else if (result.known || result.outcome == Outcome::kSkipped) {
    // JUnit has no word for a failure that is expected.
    const std::string message = result.known ? "known failure: " + *result.known : result.reason;
    xml.OpenElement("skipped");
    xml.PushAttribute("message", printable(message).c_str());
    xml.CloseElement();
  }
  xml.CloseElement();
}

// A list that is out of date fails the run, so a build server has to see it too.
void print_known_problems(tinyxml2::XMLPrinter& xml, const std::vector<std::string>& problems) {
  Totals totals;
  totals.failed = problems.size();
  xml.OpenElement("testsuite");
  xml.PushAttribute("name", "known failures");
  print_totals(xml, totals, {});
  for (const std::string& problem : problems) {
    xml.OpenElement("testcase");
    xml.PushAttribute("classname", "tzmark.known");
    xml.PushAttribute("name", printable(problem).c_str());
    xml.OpenElement("failure");
    xml.PushAttribute("type", "known");
    xml.PushAttribute("message", printable(problem).c_str());
    xml.CloseElement();
    xml.CloseElement();
  }
  xml.CloseElement();
}

}  // namespace

std::string junit_report(const SuiteRun& run) {
  std::map<std::string, Results> by_layout;
  for (const CaseResult& result : run.results) by_layout[result.item.layout].push_back(&result);

  tinyxml2::XMLPrinter xml;
  xml.PushHeader(false, true);
  xml.OpenElement("testsuites");
  xml.PushAttribute("name", printable("tzmark conformance of " + run.adapter->profile().name).c_str());
  Totals totals_of_run = totals_of(run.results);
  totals_of_run.failed += run.known_problems.size();
  print_totals(xml, totals_of_run, run.elapsed);
  for (const auto& [layout, results] : by_layout) {
    Totals totals;
    std::chrono::nanoseconds elapsed{0};
    for (const CaseResult* result : results) {
      totals.add(*result);
      elapsed += elapsed_of(*result);
    }
    xml.OpenElement("testsuite");
    xml.PushAttribute("name", printable(layout).c_str());
    print_totals(xml, totals, elapsed);
    for (const CaseResult* result : results) print_case(xml, *result);
    xml.CloseElement();
  }
  if (!run.known_problems.empty()) print_known_problems(xml, run.known_problems);
  xml.CloseElement();
  return std::string(xml.CStr()) + "\n";
}

}  // namespace tzmark::conformance
