// Reports of a run on mutated files: a table for people, a member of the JSON result for programs.
//
// Thread-safety: pure functions and values.
#pragma once

#include <map>
#include <string>

#include "mutation/mutation_run.h"

namespace tzmark::conformance::mutation {

struct MutationReport {
  const Adapter* adapter = nullptr;
  MutationOptions options;
  MutationScore score;
  // By the id of a failure's first mutated file.
  std::map<std::string, std::string> repeats;  // command lines
  std::map<std::string, std::string> files;    // of findings
};

// Ends with the line "N right, N failed, N skipped, N double".
std::string text_report(const MutationReport& report);

// The member `mutation` of reports/schema/conformance.schema.json.
Json json_report(const MutationReport& report);

// One mutated file: the change, the judgement of the model, and the answers of the adapter.
std::string text_report(const Trial& trial);

}  // namespace tzmark::conformance::mutation
