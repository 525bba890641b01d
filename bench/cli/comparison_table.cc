// Finds the rows of a comparison and writes them; see comparison_table.h.
#include "cli/comparison_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "harness/or_null.h"
#include "harness/statistics.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

constexpr double kWanted = 0.05;  // the slow-down that remarks_of() asks about

using Side = std::vector<const RunDocument*>;

const Series* measured(const RunDocument& run, const std::string& id) {
  const auto found = run.series.find(id);
  return found == run.series.end() || found->second.rates.empty() ? nullptr : &found->second;
}

// The rates of one result by process, and their ratios to the reference.
struct RowValues {
  RunSets rates, ratios;
};

// Other programs took part of the machine, more or less at random.
bool was_busy(const RunDocument& run) { return run.cores > 0 && run.load > run.cores / 2; }

// Whether the medians differ by more than the samples do within their process; nothing with too few samples.
std::optional<bool> disjoint(const std::vector<double>& a, const std::vector<double>& b) {
  const Interval one = median_interval(a);
  const Interval other = median_interval(b);
  if (!one.low || !other.low) return {};
  return *one.low > *other.high || *other.low > *one.high;
}

const Series* reference_of(const RunDocument& run, const Series& series) {
  return series.reference.empty() ? nullptr : measured(run, series.reference);
}

Side all_runs(const ComparedRuns& compared) {
  Side runs;
  for (const RunDocument& run : compared.before) runs.push_back(&run);
  for (const RunDocument& run : compared.after) runs.push_back(&run);
  return runs;
}

// Returns the values of a row from the runs that have it; as pairs, from the pairs of which both have it.
RowValues values_of(const ComparedRuns& compared, const std::string& id, bool use_reference) {
  RowValues values;
  const auto add = [&](const RunDocument& run, std::vector<double>& rates, std::vector<double>& ratios) {
    const Series& series = *measured(run, id);
    rates.push_back(log_rate(series));
    if (use_reference) ratios.push_back(log_ratio(series, *reference_of(run, series)));
  };
  const auto partner_lacks = [&](const std::vector<RunDocument>& others, std::size_t i) {
    return compared.rule.paired && measured(others[i], id) == nullptr;
  };
  for (std::size_t i = 0; i < compared.before.size(); ++i) {
    if (measured(compared.before[i], id) == nullptr || partner_lacks(compared.after, i)) continue;
    add(compared.before[i], values.rates.before, values.ratios.before);
  }
  for (std::size_t i = 0; i < compared.after.size(); ++i) {
    if (measured(compared.after[i], id) == nullptr || partner_lacks(compared.before, i)) continue;
    add(compared.after[i], values.rates.after, values.ratios.after);
  }
  if (compared.before.size() == 1 && compared.after.size() == 1) {
    const Series& before = *measured(compared.before[0], id);
    const Series& after = *measured(compared.after[0], id);
    values.rates.disjoint = disjoint(log_rates(before), log_rates(after));
    if (use_reference) {
      values.ratios.disjoint = disjoint(log_ratios(before, *reference_of(compared.before[0], before)),
                                        log_ratios(after, *reference_of(compared.after[0], after)));
    }
  }
  const bool any_busy = std::ranges::any_of(all_runs(compared), [](const RunDocument* run) { return was_busy(*run); });
  if (compared.floor != nullptr) {
    values.rates.floor = compared.floor->floor_of(id, /*of_ratio=*/false);
    if (use_reference) values.ratios.floor = compared.floor->floor_of(id, /*of_ratio=*/true);
  }
  for (RunSets* sets : {&values.rates, &values.ratios}) {
    if (any_busy && !sets->floor) sets->disjoint = {};
  }
  return values;
}

// Returns the ids that any run measured, and records the runs that lack one of them.
std::set<std::string> find_ids(ComparedRuns& compared) {
  std::set<std::string> ids;
  const Side runs = all_runs(compared);
  for (const RunDocument* run : runs) {
    for (const auto& [id, series] : run->series) {
      if (!series.rates.empty()) ids.insert(id);
    }
  }
  for (const std::string& id : ids) {
    for (const RunDocument* run : runs) {
      if (measured(*run, id) != nullptr) continue;
      const auto found = run->series.find(id);
      compared.missing.push_back({id, run->file, found == run->series.end() ? "" : found->second.why_empty});
    }
  }
  return ids;
}

const Series* first_measured(const std::vector<RunDocument>& runs, const std::string& id) {
  for (const RunDocument& run : runs) {
    if (const Series* series = measured(run, id)) return series;
  }
  return nullptr;
}

// Returns whether every run that has the result has its raw path too.
bool has_reference(const ComparedRuns& compared, const std::string& id) {
  return !compared.by_rate && std::ranges::all_of(all_runs(compared), [&](const RunDocument* run) {
    const Series* series = measured(*run, id);
    return series == nullptr || reference_of(*run, *series) != nullptr;
  });
}

double median_rate(const std::vector<double>& logs) { return std::exp(median_interval(logs).median); }

// Whether the raw path changed significantly, in the direction of the row and by half as much or more.
bool changed_with(const ComparedRow& row, const ComparedRow& reference) {
  return reference.rate.change == row.rate.change &&
         std::abs(std::log(reference.rate.ratio)) >= std::abs(std::log(row.rate.ratio)) / 2;
}

const ComparedRow* row_of(const std::vector<ComparedRow>& rows, const std::string& id) {
  const auto found = std::ranges::lower_bound(rows, id, {}, &ComparedRow::id);
  return found == rows.end() || found->id != id ? nullptr : &*found;
}

enum class Whose { kBuild, kMachine, kUnknown };

// Returns whose a change of the rate is that no ratio shows. A raw path uses tzmark's own I/O layer, so that it tells
// nothing about the machine unless fio did the same.
Whose whose_change(const ComparedRow& row, const ComparedRow* reference, const ComparedRow* witness,
                   const ComparedRuns& compared) {
  if (!row.is_of_build) return Whose::kMachine;
  if (compared.by_rate) return Whose::kBuild;
  // Noise of the raw path hides changes of the code in the ratio: without a change of the raw path, the rate is judged.
  const bool is_common = reference != nullptr ? changed_with(row, *reference) : !row.is_judged;
  if (!is_common) return Whose::kBuild;
  if (compared.by_ratio) return Whose::kMachine;
  if (witness != nullptr) return changed_with(row, *witness) ? Whose::kMachine : Whose::kBuild;
  // What the machine does meets both sides of runs in turn.
  return compared.rule.paired ? Whose::kBuild : Whose::kUnknown;
}

void judge(ComparedRow& row, const ComparedRuns& compared) {
  const bool slower = row.rate.change == Change::kRegression;
  const bool faster = row.rate.change == Change::kFaster;
  const bool by_ratio = !row.reference.empty() &&
                        (row.judged.change == Change::kRegression || (faster && row.judged.change == Change::kFaster));
  if ((slower || faster) && !by_ratio) {
    const Whose whose =
        whose_change(row, row_of(compared.rows, row.reference), row_of(compared.rows, row.witness), compared);
    if (whose == Whose::kMachine) {
      row.verdict = slower ? "machine slower" : "machine faster";
      return;
    }
    row.judged = row.rate;
    row.reference.clear();
    if (whose == Whose::kUnknown && slower) {
      row.verdict = kMachineOrBuild;
      return;
    }
  }
  row.verdict = name_of(row.judged.change);
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string interval_text(const Comparison& comparison) {
  return comparison.low ? fmt::format("{:.3f} to {:.3f}", *comparison.low, *comparison.high) : "unknown";
}

std::string p_text(const Comparison& comparison) {
  if (!comparison.p) return "-";
  return *comparison.p < 0.0001 ? "< 0.0001" : fmt::format("{:.4f}", *comparison.p);
}

std::string rate_text(const ComparedRow& row, double rate) {
  return row.subject == "benchmark" ? fmt::format("{:.4g}/s", rate) : fmt::format("{:.3f}", rate / 1e9);
}

bool is_notable(const ComparedRow& row) { return row.verdict != name_of(Change::kNone); }

json to_json(const Comparison& comparison) {
  return {{"ratio", comparison.ratio},
          {"low", or_null(comparison.low)},
          {"high", or_null(comparison.high)},
          {"p", or_null(comparison.p)},
          {"detectable", or_null(comparison.detectable)},
          {"floor", or_null(comparison.floor)}};
}

json names_of(const std::vector<RunDocument>& runs) {
  json names = json::array();
  for (const RunDocument& run : runs) names.push_back({{"file", run.file}, {"tool", run.tool}});
  return names;
}

// Text of a result, such as the name of a benchmark, for one cell or line: without what ends these or a code span.
std::string markdown_line(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7f) c = ' ';
    if (c == '`') c = '\'';
    if (c == '|') c = '/';
  }
  return text;
}

std::string markdown_row(const ComparedRow& row) {
  return fmt::format("| `{}` | {} | {} | {:.3f} | {} | {} | {} | {} |\n", markdown_line(row.id),
                     rate_text(row, row.old_rate), rate_text(row, row.new_rate), row.judged.ratio,
                     interval_text(row.judged), p_text(row.judged),
                     row.judged.detectable ? percent(*row.judged.detectable) : "nothing", row.verdict);
}

std::string markdown_item(std::string text) { return "- " + markdown_line(std::move(text)) + "\n"; }

constexpr std::string_view kMarkdownHead =
    "| what | old | new | ratio | 95 % interval | p | finds | verdict |\n|---|---:|---:|---:|---|---:|---:|---|\n";

}  // namespace

bool ComparedRuns::has_regression() const {
  return std::ranges::any_of(rows, [](const ComparedRow& row) { return row.verdict == name_of(Change::kRegression); });
}

std::size_t ComparedRuns::undecided_rows() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [](const ComparedRow& row) { return row.verdict == kMachineOrBuild; }));
}

std::size_t ComparedRuns::blind_rows() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [](const ComparedRow& row) { return row.is_judged && !row.judged.detectable; }));
}

void compare_documents(ComparedRuns& compared) {
  const std::set<std::string> ids = find_ids(compared);
  // Results of raw paths, fio and peers are judged only where there is nothing else.
  const bool any_judged = std::ranges::any_of(all_runs(compared), [](const RunDocument* run) {
    return std::ranges::any_of(run->series, [](const auto& entry) { return entry.second.is_judged(); });
  });
  // The rates of all rows, then the ratios of those with a raw path. Both can be claimed, so they are corrected
  // together.
  std::vector<RunSets> tests;
  std::vector<RunSets> ratios;
  for (const std::string& id : ids) {
    const Series* before = first_measured(compared.before, id);
    const Series* after = first_measured(compared.after, id);
    if (before == nullptr || after == nullptr) continue;
    const bool use_reference = before->is_judged() && has_reference(compared, id) && !before->reference.empty();
    RowValues values = values_of(compared, id, use_reference);
    if (values.rates.before.empty() || values.rates.after.empty()) continue;  // no pair has both
    compared.rows.push_back({id,
                             before->subject,
                             use_reference ? before->reference : "",
                             median_rate(values.rates.before),
                             median_rate(values.rates.after),
                             {},
                             {},
                             values.rates.before.size(),
                             values.rates.after.size(),
                             before->is_judged() || !any_judged,
                             before->is_of_build() || !any_judged,
                             before->witness,
                             ""});
    tests.push_back(std::move(values.rates));
    if (use_reference) ratios.push_back(std::move(values.ratios));
  }
  std::ranges::move(ratios, std::back_inserter(tests));
  compared.tests = tests.size();
  const std::vector<Comparison> found = compare_runs(tests, compared.rule);
  auto ratio = found.begin() + static_cast<std::ptrdiff_t>(compared.rows.size());
  for (std::size_t i = 0; i < compared.rows.size(); ++i) {
    ComparedRow& row = compared.rows[i];
    row.rate = found[i];
    row.judged = row.reference.empty() ? row.rate : *ratio++;
  }
  for (ComparedRow& row : compared.rows) judge(row, compared);
}

std::string difference_text(const Difference& difference) {
  const auto text = [](const json& value) { return value.is_null() ? std::string("unknown") : value.dump(); };
  return fmt::format("{}: {}, but {} in {}", difference.fact, text(difference.expected), text(difference.found),
                     difference.file);
}

std::string missing_text(const MissingResult& missing) {
  return fmt::format("missing in {}: {}{}", missing.file, missing.id,
                     missing.why.empty() ? "" : " (" + missing.why + ")");
}

std::vector<std::string> remarks_of(const ComparedRuns& compared) {
  std::vector<std::string> remarks;
  for (const RunDocument* run : all_runs(compared)) {
    if (was_busy(*run)) {
      remarks.push_back(fmt::format("the machine was busy at the start of {}: load {:.1f} on {:.0f} cores", run->file,
                                    run->load, run->cores));
    }
  }
  if (const std::size_t undecided = compared.undecided_rows(); undecided > 0) {
    remarks.push_back(fmt::format(
        "{} of {} rows are slower with the raw path, which is tzmark's own I/O layer, so this is the machine "
        "or the build: run both builds in turn (bench against, scripts/gate, or --paired), measure fio "
        "with them (bench --fio), or take it for the machine's (--by-ratio)",
        undecided, compared.rows.size()));
  }
  const std::size_t runs = std::min(compared.before.size(), compared.after.size());
  if (runs == 1) {
    remarks.push_back(fmt::format(
        "one process on a side does not show what processes of one build differ by: nothing below the floor is claimed "
        "({} without --floor; nothing at all if the machine was busy). Compare several processes with --runs",
        percent(kDefaultFloor)));
    return remarks;
  }
  std::size_t blind = 0;
  double worst = 0;
  for (const ComparedRow& row : compared.rows) {
    worst = std::max(worst, row.judged.spread);
    if (!row.judged.detectable || *row.judged.detectable > kWanted) ++blind;
  }
  if (const std::size_t required = runs_required(compared.tests, compared.rule); runs < required) {
    remarks.push_back(
        fmt::format("no result of {} processes on a side can be significant among {} tests: run at least {}", runs,
                    compared.tests, required));
  } else if (blind > 0) {
    const auto needed = runs_to_find(kWanted, worst, compared.tests, compared.rule);
    remarks.push_back(fmt::format("a slow-down of {:.0f} % can go unnoticed in {} of {} rows: {}", 100 * kWanted, blind,
                                  compared.rows.size(),
                                  needed ? fmt::format("run {} processes on each side", *needed)
                                         : std::string("no number of processes up to a thousand would do")));
  }
  return remarks;
}

std::string table_text(const ComparedRuns& compared) {
  std::size_t width = 4;
  for (const ComparedRow& row : compared.rows) width = std::max(width, row.id.size());
  std::string text = fmt::format("{:{}} {:>9} {:>9} {:>6} {:>14} {:>8} {:>7}  {}\n", "what", width, "old GB/s",
                                 "new GB/s", "ratio", "95 % interval", "p", "finds", "verdict");
  for (const ComparedRow& row : compared.rows) {
    text += fmt::format("{:{}} {:>9} {:>9} {:>6.3f} {:>14} {:>8} {:>7}  {}{}\n", row.id, width,
                        rate_text(row, row.old_rate), rate_text(row, row.new_rate), row.judged.ratio,
                        interval_text(row.judged), p_text(row.judged),
                        row.judged.detectable ? percent(*row.judged.detectable) : "nothing", row.verdict,
                        row.reference.empty() ? "" : " (relative to raw)");
  }
  return text;
}

json to_json(const ComparedRuns& compared) {
  json rows = json::array();
  for (const ComparedRow& row : compared.rows) {
    rows.push_back({{"id", row.id},
                    {"subject", row.subject},
                    {"reference", row.reference.empty() ? json() : json(row.reference)},
                    {"old", {{"rate", row.old_rate}, {"runs", row.old_runs}}},
                    {"new", {{"rate", row.new_rate}, {"runs", row.new_runs}}},
                    {"rate", to_json(row.rate)},
                    {"judged", to_json(row.judged)},
                    {"verdict", row.verdict}});
  }
  json differences = json::array();
  for (const Difference& difference : compared.differences) {
    differences.push_back({{"fact", difference.fact},
                           {"file", difference.file},
                           {"expected", difference.expected},
                           {"found", difference.found}});
  }
  json missing = json::array();
  for (const MissingResult& result : compared.missing) {
    missing.push_back({{"id", result.id}, {"file", result.file}, {"why", result.why}});
  }
  return {{"schema_version", 1},
          {"kind", "comparison"},
          {"tool", {{"name", "tzmark"}, {"version", version()}, {"commit", commit()}}},
          {"old", names_of(compared.before)},
          {"new", names_of(compared.after)},
          {"alpha", compared.rule.alpha},
          {"threshold", compared.rule.threshold},
          {"paired", compared.rule.paired},
          {"floor", compared.floor == nullptr ? json() : json(compared.floor->facts().file)},
          {"differences", std::move(differences)},
          {"missing", std::move(missing)},
          {"remarks", remarks_of(compared)},
          {"rows", std::move(rows)}};
}

std::string markdown_text(const ComparedRuns& compared) {
  std::map<std::string, std::size_t> counts;
  for (const ComparedRow& row : compared.rows) ++counts[row.verdict];
  std::string text =
      fmt::format("### tzmark compare: {}\n\n", compared.has_regression()       ? "regression"
                                                : compared.undecided_rows() > 0 ? "slower, by the machine or the build"
                                                : compared.missing.empty()      ? "no regression"
                                                                                : "results are missing");
  text +=
      fmt::format("{} and {} processes, {} rows:", compared.before.size(), compared.after.size(), compared.rows.size());
  for (const auto& [verdict, count] : counts) text += fmt::format(" {} {},", count, verdict);
  text.back() = '.';
  text += "\n\n";
  for (const Difference& difference : compared.differences) text += markdown_item(difference_text(difference));
  for (const MissingResult& missing : compared.missing) text += markdown_item(missing_text(missing));
  for (const std::string& remark : remarks_of(compared)) text += markdown_item(remark);
  if (text.back() == '\n' && text[text.size() - 2] != '\n') text += "\n";
  std::string notable;
  std::string others;
  for (const ComparedRow& row : compared.rows) (is_notable(row) ? notable : others) += markdown_row(row);
  if (!notable.empty()) text += std::string(kMarkdownHead) + notable + "\n";
  if (!others.empty()) {
    text +=
        "<details><summary>No difference found</summary>\n\n" + std::string(kMarkdownHead) + others + "\n</details>\n";
  }
  return text;
}

}  // namespace tzmark::bench
