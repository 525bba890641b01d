// For each rule that readers check: does some case of the corpus catch a reader that leaves this one check out?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "model/corpus_files.h"

namespace tzmark::conformance::model {
namespace {

// Rules that no case isolates, and why. The list is exact: a rule that is isolated after all has to leave it.
const std::map<std::string, std::string> kNotIsolated = {
    {"TZR-DTY-005", "it binds those who ask for a typed tensor, and the file itself is valid"},
    {"TZR-IDX-012", "a reader that goes by the offsets may take such a file, so its cases leave the choice"},
    {"TZR-REC-005", "the index differs (TZR-REC-010), or gives data of 2^63 bytes, which no shape does (TZR-IDX-006)"},
    {"TZR-TRM-001", "a reader that goes by the index may take such a file, so its cases leave the choice"},
    {"TZR-TRM-002", "a reader that goes by the index may take such a file, so its cases leave the choice"},
};

std::vector<std::string> rules_for_readers() {
  std::vector<std::string> ids;
  const Json document = corpus_rules();
  for (const auto& [id, rule] : document.at("rules").items()) {
    if (id.starts_with("TZR-") && rule.at("level") == "MUST" && rule.at("binds") != "writer") ids.push_back(id);
  }
  return ids;
}

// The first of the refusing defects that the case's verdict asks for; empty if a reader would take the file.
std::string refusal(const Description& description, const CorpusCase& item) {
  const auto refuses = item.verdict == "integrity-failure" ? refuses_verify : refuses_decode;
  const auto found = std::find_if(description.defects.begin(), description.defects.end(), refuses);
  return found == description.defects.end() ? "" : found->rule;
}

bool has_to_be_refused(const CorpusCase& item) {
  return item.verdict != "valid" && item.verdict != "implementation-defined";
}

TEST(Isolation, EachRuleIsCaughtAlone) {
  std::map<std::string, std::vector<CorpusCase>> cases;
  for (const CorpusCase& item : corpus_cases()) {
    for (const std::string& rule : item.rules) {
      if (has_to_be_refused(item)) cases[rule].push_back(item);
    }
  }
  const std::vector<std::string> rules = rules_for_readers();
  EXPECT_GT(rules.size(), kNotIsolated.size());
  for (const std::string& rule : rules) {
    std::map<std::string, std::size_t> caught_by_other;
    std::size_t taken = 0;
    for (const CorpusCase& item : cases[rule]) {
      const std::string other = refusal(describe(bytes_of(item.file), item.secret, {rule}), item);
      other.empty() ? ++taken : ++caught_by_other[other];
    }
    EXPECT_NE(taken > 0, kNotIsolated.contains(rule))
        << rule << ": " << taken << " cases catch a reader without it, and other rules catch it in "
        << testing::PrintToString(caught_by_other);
  }
}

}  // namespace
}  // namespace tzmark::conformance::model
