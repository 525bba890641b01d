// Is every check that a reader makes only here and there caught by some case of the corpus?
//
// planted.json has the number of planted bugs of each rule, and for each bug that no case catches the reason why none
// can. The test writes the same file anew to the build directory, without reasons for bugs that are new.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "planted_bugs/bugs.h"
#include "planted_bugs/caught.h"
#include "planted_bugs/clauses.h"

namespace tzmark::conformance::planted {
namespace {

using model::Description;
using model::Json;

constexpr std::size_t kBugsLeast = 400;

struct Met {
  model::Defect defect;
  std::string layout;
};

class Corpus {
 public:
  Corpus() {
    for (model::CorpusCase& item : model::corpus_cases()) {
      if (std::filesystem::file_size(item.file) > kFileBytesMax) continue;
      subjects_.push_back(std::make_unique<Subject>(std::move(item), subjects_.size()));
      const Subject& subject = *subjects_.back();
      meet_defects(subject);
      if (subject.item.verdict == "valid") remember(subject);
    }
  }

  const std::map<std::string, std::vector<std::pair<const Subject*, Met>>>& met() const { return met_; }

  // The id of a case that catches a reader with this bug; empty if there is none.
  std::string catches(const Bug& bug) const {
    const auto found = met_.find(bug.rule);
    if (found == met_.end()) return "";
    const Subject* last = nullptr;
    for (const auto& [subject, met] : found->second) {
      if (subject == last || !bug.misses({*subject, history_, met.defect, met.layout})) continue;
      last = subject;
      const Description description =
          model::describe(subject->bytes, subject->item.secret,
                          [&, at = subject](const model::Defect& defect, std::string_view layout) {
                            return bug.misses({*at, history_, defect, layout});
                          });
      if (is_caught(subject->item, description)) return subject->item.id;
    }
    return "";
  }

 private:
  void meet_defects(const Subject& subject) {
    std::set<std::tuple<std::string, std::optional<std::uint64_t>, std::string, std::string>> known;
    model::describe(subject.bytes, subject.item.secret, [&](const model::Defect& defect, std::string_view layout) {
      const bool binds_reader = model::refuses_verify(defect);
      if (binds_reader && known.emplace(defect.rule, defect.offset, model::sentence_of(defect), layout).second) {
        met_[defect.rule].push_back({&subject, {defect, std::string(layout)}});
      }
      return false;
    });
  }

  void remember(const Subject& subject) {
    history_.accepted("header " + subject.file_header(), subject.question);
    history_.accepted("path " + subject.item.file.string(), subject.question);
    for (std::uint64_t i = 0; i < subject.tensor_count(); ++i) {
      history_.accepted("name " + subject.text(fmt::format("index entry {}", i), "name"), subject.question);
    }
  }

  std::vector<std::unique_ptr<Subject>> subjects_;
  std::map<std::string, std::vector<std::pair<const Subject*, Met>>> met_;  // by rule, in the order of the manifest
  History history_;
};

const Corpus& corpus() {
  static const Corpus all;
  return all;
}

Json committed() {
  std::ifstream file(std::string(std::getenv("TZMARK_SOURCE_DIR")) + "/conformance/planted_bugs/planted.json");
  return Json::parse(file);
}

TEST(PlantedBugs, EachIsCaughtOrExplained) {
  const Json before = committed();
  const auto reason_of = [&](const Bug& bug) {
    const Json& rule = before.value(bug.rule, Json::object());
    return rule.value("not_caught", Json::object()).value(bug.name(), "");
  };
  Json now = Json::object();
  std::size_t planted = 0, explained = 0;
  std::set<std::string> names;
  for (const Bug& bug : planted_bugs()) {
    EXPECT_TRUE(names.insert(bug.name()).second) << bug.name() << " is planted twice";
    Json& rule = now[bug.rule];
    if (rule.is_null()) rule = {{"planted", 0}, {"not_caught", Json::object()}};
    rule["planted"] = rule["planted"].get<int>() + 1;
    ++planted;
    if (!corpus().catches(bug).empty()) continue;
    const std::string reason = reason_of(bug);
    rule["not_caught"][bug.name()] = reason;
    EXPECT_FALSE(reason.empty()) << bug.name() << " is caught by no case and not explained";
    ++explained;
  }
  std::ofstream(std::string(std::getenv("TZMARK_BUILD_DIR")) + "/planted.json") << now.dump(1) << '\n';
  for (const auto& [id, rule] : before.items()) {
    for (const auto& [name, reason] : rule.at("not_caught").items()) {
      EXPECT_TRUE(names.contains(name)) << name << " is explained and not planted";
      EXPECT_TRUE(now[id]["not_caught"].contains(name)) << name << " is explained and caught";
    }
    EXPECT_EQ(rule.at("planted"), now[id]["planted"]) << id;
  }
  EXPECT_GE(planted, kBugsLeast);
  fmt::print("{} planted bugs: {} caught, {} explained\n", planted, planted - explained, explained);
}

TEST(PlantedBugs, AreCaughtForWhatTheyMiss) {
  Bug bug{"TZR-HDR-002", "", "misses everything",
          [](const Event& event) { return event.defect.rule == "TZR-HDR-002"; }};
  EXPECT_NE(corpus().catches(bug), "");
  bug.misses = [](const Event&) { return false; };
  EXPECT_EQ(corpus().catches(bug), "");
  // What this rule would refuse, another one refuses as well.
  EXPECT_EQ(corpus().catches({"TZR-REC-005", "", "misses everything",
                              [](const Event& event) { return event.defect.rule == "TZR-REC-005"; }}),
            "");
}

TEST(PlantedBugs, CoverEveryRuleOfReaders) {
  std::set<std::string> planted;
  for (const Rule& rule : rules()) planted.insert(rule.id);
  std::set<std::string> wanted;
  const Json document = model::corpus_rules();
  for (const auto& [id, rule] : document.at("rules").items()) {
    if (id.starts_with("TZR-") && rule.at("level") == "MUST" && rule.at("binds") != "writer") wanted.insert(id);
  }
  wanted.erase("TZR-DTY-005");  // it says what a reader may do with a valid file
  EXPECT_EQ(planted, wanted);
}

// A defect of no clause would be one that no bug of a clause misses.
TEST(PlantedBugs, HaveOneClauseForEachDefect) {
  std::set<std::string> wrong;
  for (const auto& [rule, list] : corpus().met()) {
    for (const auto& [subject, met] : list) {
      if (clauses_of(met.defect) != 1) wrong.insert(rule + " " + model::sentence_of(met.defect));
    }
  }
  EXPECT_EQ(wrong, std::set<std::string>());
}

}  // namespace
}  // namespace tzmark::conformance::planted
