// The rows of a comparison of runs, and their forms: table, JSON and Markdown.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/floor_document.h"
#include "cli/run_document.h"
#include "harness/comparison.h"

namespace tzmark::bench {

// The verdict that fails because nothing shows whose a slow-down is.
inline constexpr std::string_view kMachineOrBuild = "undecided";

// A result that both sides have.
struct ComparedRow {
  std::string id;
  std::string subject;
  std::string reference;              // the raw path, relative to which the verdict is; empty if it is on rates
  double old_rate = 0, new_rate = 0;  // medians over processes
  Comparison rate;                    // of the rates themselves
  Comparison judged;                  // of the ratio to the reference, or of the rates
  std::size_t old_runs = 0, new_runs = 0;
  bool is_judged = true;  // false for references
  bool is_of_build = true;
  std::string witness;  // a row of fio, which shows what the machine does; empty without one
  // "REGRESSION" and the like; "machine slower" or "machine faster"; kMachineOrBuild if the rate is slower with that of
  // the raw path, and nothing tells the machine from tzmark's I/O layer.
  std::string verdict;
};

// A result that some processes lack.
struct MissingResult {
  std::string id;
  std::string file;
  std::string why;
};

struct ComparedRuns {
  std::vector<RunDocument> before, after;
  ComparisonRule rule;
  const FloorFile* floor = nullptr;  // may be null
  bool by_rate = false;              // ignore the raw path
  bool by_ratio = false;             // what codec and raw path have in common is the machine's
  std::vector<Difference> differences = {};
  std::vector<MissingResult> missing = {};
  std::vector<ComparedRow> rows = {};  // by id
  std::size_t tests = 0;               // of rates and of ratios, among which claims are corrected

  bool has_regression() const;
  std::size_t undecided_rows() const;
  // Judged rows that could not be a regression however slow they were.
  std::size_t blind_rows() const;
};

// Fills in missing, rows and tests.
void compare_documents(ComparedRuns& compared);

std::string difference_text(const Difference& difference);
std::string missing_text(const MissingResult& missing);
// What limits the comparison, and what it could have found.
std::vector<std::string> remarks_of(const ComparedRuns& compared);

std::string table_text(const ComparedRuns& compared);
nlohmann::json to_json(const ComparedRuns& compared);
std::string markdown_text(const ComparedRuns& compared);

}  // namespace tzmark::bench
