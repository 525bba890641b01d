// Tests of the error table, of the text of errors, and of the rules that FORMAT.md states.
#include "tzmark/error.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>

#include "bytes/utf8.h"
#include "testing/caught.h"
#include "testing/files/source_file.h"

namespace tzmark {
namespace {

using test::caught;
using test::failure;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::span<const ErrorInfo> table() {
  std::size_t count = 0;
  const ErrorInfo* const rows = error_table(count);
  return {rows, count};
}

int number(ErrorCode code) { return static_cast<int>(code); }

std::string format_document() { return test::read_source_file("reference/FORMAT.md"); }

// A rule of FORMAT.md, and how the table words it: without a capital letter in front or a full stop behind.
struct Statement {
  std::string level, binds, text;
};

std::map<std::string, Statement> statements(const std::string& document) {
  std::map<std::string, Statement> found;
  std::istringstream lines(document);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("- **TZ") && !line.starts_with("- **ST-") && !line.starts_with("- **CKP-")) {
      continue;
    }
    std::string_view rest = line;
    const auto until = [&](std::string_view mark) {
      const std::size_t at = rest.find(mark);
      // A rule line with a slip in its form must not go missing.
      if (at == std::string_view::npos) throw std::runtime_error("not in the form of a rule: " + line);
      std::string part(rest.substr(0, at));
      rest.remove_prefix(at + mark.size());
      return part;
    };
    until("- **");
    const std::string rule = until("** (");
    Statement statement;
    statement.level = until(", ");
    statement.binds = until("): ");
    if (!rest.ends_with('.')) throw std::runtime_error("a rule without a full stop: " + line);
    statement.text = rest.substr(0, rest.size() - 1);
    if (!found.emplace(rule, statement).second) throw std::runtime_error("stated twice: " + line);
  }
  return found;
}

// Equal but for the case of the first letter.
bool same_sentence(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return a.size() == b.size() && !a.empty() && lower(a[0]) == lower(b[0]) && a.substr(1) == b.substr(1);
}

// Where the numbers of an area's rules begin. That number and rule id belong together is pinned by it: the number is
// this plus the last three digits of the id.
const std::map<std::string_view, int> kAreas = {{"TZR-HDR", 100}, {"TZR-IDX", 200}, {"TZR-REC", 300}, {"TZR-SEG", 250},
                                                {"TZR-TRM", 350}, {"TZR-NAM", 400}, {"TZR-DTY", 500}, {"TZR-HSH", 600},
                                                {"TZR-CRY", 700}, {"ST", 800},      {"CKP", 850},     {"TZX-SPL", 870}};

// The rest has no such order.
const std::map<int, std::string_view> kNotAboutTheFormat = {
    {901, "TZE-USE-001"}, {902, "TZE-USE-002"}, {903, "TZE-ENV-001"}, {904, "TZE-ENV-002"},
    {905, "TZE-ENV-003"}, {906, "TZE-ENV-004"}, {907, "TZE-ENV-005"}, {908, "TZE-ENV-006"},
    {909, "TZE-AVL-001"}, {910, "TZE-ENV-007"}, {911, "TZE-ENV-008"}};

TEST(ErrorTable, IsSortedWithoutRepetition) {
  ASSERT_FALSE(table().empty());
  EXPECT_EQ(std::ranges::adjacent_find(table(), std::ranges::greater_equal{}, &ErrorInfo::code), table().end());
  std::set<std::string_view> rules;
  for (const ErrorInfo& row : table()) EXPECT_TRUE(rules.insert(row.rule).second) << row.rule;
}

TEST(ErrorTable, NumbersArePinnedToRules) {
  for (const ErrorInfo& row : table()) {
    SCOPED_TRACE(row.rule);
    const std::size_t dash = row.rule.rfind('-');
    ASSERT_EQ(row.rule.size(), dash + std::string_view("-001").size());
    const auto area = kAreas.find(row.rule.substr(0, dash));
    if (area != kAreas.end()) {
      EXPECT_EQ(number(row.code), area->second + std::stoi(std::string(row.rule.substr(dash + 1))));
    } else {
      const auto pinned = kNotAboutTheFormat.find(number(row.code));
      ASSERT_NE(pinned, kNotAboutTheFormat.end()) << number(row.code);
      EXPECT_EQ(pinned->second, row.rule);
    }
  }
}

TEST(ErrorTable, TextsAreOneLine) {
  for (const ErrorInfo& row : table()) {
    EXPECT_THAT(row.text, Not(IsEmpty())) << row.rule;
    EXPECT_EQ(printable(row.text), row.text) << row.rule;
    EXPECT_FALSE(row.text.ends_with('.')) << row.rule;
  }
}

TEST(ErrorTable, InfoFindsEveryRow) {
  for (const ErrorInfo& row : table()) EXPECT_EQ(&error_info(row.code), &row) << row.rule;
  EXPECT_EQ(error_info(ErrorCode::kIndexEntryPastEnd).rule, "TZR-IDX-002");
  EXPECT_EQ(error_info(ErrorCode::kUnavailable).error_class, ErrorClass::kUnavailable);
}

TEST(ErrorTable, ClassesAreExitStatuses) {
  EXPECT_EQ(static_cast<int>(ErrorClass::kFile), 1);
  EXPECT_EQ(static_cast<int>(ErrorClass::kUsage), 2);
  EXPECT_EQ(static_cast<int>(ErrorClass::kEnvironment), 3);
  EXPECT_EQ(static_cast<int>(ErrorClass::kUnavailable), 4);
}

// A document states the rules of the table whose ids have one of these prefixes, and no others.
void expect_states_rules(const std::string& document, const std::vector<std::string_view>& prefixes) {
  const auto stated = statements(document);
  std::set<std::string, std::less<>> in_table;
  for (const ErrorInfo& row : table()) {
    const auto has = [&](std::string_view prefix) { return row.rule.starts_with(prefix); };
    if (std::ranges::none_of(prefixes, has)) continue;
    in_table.emplace(row.rule);
    const auto found = stated.find(std::string(row.rule));
    if (found == stated.end()) {
      ADD_FAILURE() << row.rule << " is not stated";
      continue;
    }
    const Statement& statement = found->second;
    EXPECT_TRUE(same_sentence(statement.text, row.text))
        << row.rule << "\n  document: " << statement.text << "\n  table:    " << row.text;
    EXPECT_TRUE(statement.level == "MUST" || statement.level == "SHOULD") << row.rule << ' ' << statement.level;
    EXPECT_TRUE(std::set<std::string>({"reader", "writer", "both"}).contains(statement.binds))
        << row.rule << ' ' << statement.binds;
    // A file cannot break what only binds a writer; asking a writer to do it is wrong usage.
    if (statement.binds == "writer") {
      EXPECT_EQ(row.error_class, ErrorClass::kUsage) << row.rule;
    }
  }
  for (const auto& [rule, statement] : stated) EXPECT_TRUE(in_table.contains(rule)) << rule << " is not in the table";
  EXPECT_GT(stated.size(), 10U);
}

TEST(FormatDocument, StatesTheRulesOfTheTableAndNoOthers) { expect_states_rules(format_document(), {"TZR-", "TZX-"}); }

TEST(SafetensorsDocument, StatesTheRulesOfTheTableAndNoOthers) {
  std::string document = test::read_source_file("reference/SAFETENSORS.md");
  // Without its quotes Markdown would print __metadata__ in bold.
  std::erase(document, '`');
  expect_states_rules(document, {"ST-"});
}

TEST(CheckpointsDocument, StatesTheRulesOfTheTable) {
  const auto stated = statements(test::read_source_file("reference/CHECKPOINTS.md"));
  std::size_t rules = 0;
  for (const ErrorInfo& row : table()) {
    if (!row.rule.starts_with("CKP-")) continue;
    ++rules;
    ASSERT_TRUE(stated.contains(std::string(row.rule))) << row.rule;
    EXPECT_TRUE(same_sentence(stated.at(std::string(row.rule)).text, row.text)) << row.rule;
  }
  EXPECT_EQ(stated.size(), rules);
  EXPECT_GE(rules, 6U);
}

TEST(FormatDocument, NamesNoRuleThatDoesNotExist) {
  const std::string document = format_document();
  std::set<std::string, std::less<>> known;
  for (const ErrorInfo& row : table()) known.emplace(row.rule);
  std::size_t named = 0;
  for (std::size_t at = document.find("TZ"); at != std::string::npos; at = document.find("TZ", at + 1)) {
    const std::string id = document.substr(at, std::string_view("TZR-HDR-001").size());
    if (!id.starts_with("TZR-") && !id.starts_with("TZE-")) continue;
    EXPECT_TRUE(known.contains(id)) << id;
    ++named;
  }
  EXPECT_GT(named, statements(document).size());
}

TEST(FormatDocument, ComparisonSeesDifferences) {
  EXPECT_TRUE(same_sentence("The magic", "the magic"));
  EXPECT_FALSE(same_sentence("The magic", "the Magic"));
  EXPECT_FALSE(same_sentence("The magic", "the magic."));
  EXPECT_FALSE(same_sentence("", ""));
  const std::string rule = "- **TZR-HDR-002** (MUST, both): A b.\n";
  EXPECT_EQ(statements("text\n" + rule + "  Why.\n").at("TZR-HDR-002").text, "A b");
  EXPECT_ANY_THROW(statements(rule + rule));
  EXPECT_ANY_THROW(statements("- **TZR-HDR-002** (MUST, both): A b.  \n"));
  EXPECT_ANY_THROW(statements("- **TZR-HDR-002** MUST: A b.\n"));
}

TEST(Error, SaysRuleOffsetAndDetail) {
  const Error error(ErrorCode::kIndexEntryPastEnd, "a name runs past the end of the index", 73);
  EXPECT_STREQ(error.what(), "error TZR-IDX-002 at byte 73: a name runs past the end of the index");
  EXPECT_EQ(error.message(), "a name runs past the end of the index");
  EXPECT_EQ(error.code(), ErrorCode::kIndexEntryPastEnd);
  EXPECT_EQ(error.rule(), "TZR-IDX-002");
  EXPECT_EQ(error.error_class(), ErrorClass::kFile);
  EXPECT_EQ(error.offset(), 73U);
}

TEST(Error, SaysNoOffsetWhereThereIsNone) {
  const Error error(ErrorCode::kOpenFailed, "cannot open: No such file or directory");
  EXPECT_STREQ(error.what(), "error TZE-ENV-001: cannot open: No such file or directory");
  EXPECT_EQ(error.offset(), std::nullopt);
  EXPECT_EQ(error.error_class(), ErrorClass::kEnvironment);
}

TEST(Error, WithoutDetailStatesTheRule) {
  const Error error(ErrorCode::kTerminatorNonzero, "", 0);
  EXPECT_STREQ(error.what(), "error TZR-TRM-002 at byte 0: the terminator is zero");
}

TEST(Error, OffsetHasNoLimit) {
  EXPECT_STREQ(Error(ErrorCode::kUsage, "x", ~std::uint64_t{0}).what(),
               "error TZE-USE-001 at byte 18446744073709551615: x");
}

TEST(Error, HostileTextBecomesOnePrintableLine) {
  std::string hostile;
  for (int byte = 0; byte < 256; ++byte) hostile += static_cast<char>(byte);
  hostile +=
      "\xc2\x9b"
      "31m \xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9 \xed\xa0\x80 \xf0\x9f\x98\x80";
  const Error error(ErrorCode::kNameJson, hostile, 1);
  EXPECT_FALSE(find_invalid_utf8(error.what()));
  EXPECT_TRUE(std::ranges::none_of(error.message(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
  EXPECT_THAT(error.message(), HasSubstr("\\x00\\x01"));
  EXPECT_THAT(error.message(), HasSubstr("\\x0a\\x0b"));
  EXPECT_THAT(error.message(), HasSubstr("\\x7f\\x80\\x81"));
  EXPECT_THAT(error.message(), HasSubstr("\\xc2\\x9b31m \\xc2\\x85 \\xe2\\x80\\xa8 "));
  // Text beyond ASCII stays readable.
  EXPECT_TRUE(error.message().ends_with(" \xf0\x9f\x98\x80"));
  EXPECT_EQ(error.what(), "error TZR-NAM-002 at byte 1: " + error.message());
}

TEST(Error, LongTextIsCut) {
  const Error error(ErrorCode::kNameJson, std::string(499, 'a') + "\xc3\xa4" + std::string(100'000, 'b'), 1);
  // The cut goes through a character here, and its first half is shown as what it is: a byte.
  EXPECT_EQ(error.message(), std::string(499, 'a') + "\\xc3");
}

TEST(Caught, SeesOtherCodesOtherOffsetsAndNone) {
  const auto action = [] { throw Error(ErrorCode::kUsage, "x", 7); };
  EXPECT_EQ(caught(action), failure(ErrorCode::kUsage, 7));
  EXPECT_NE(caught(action), failure(ErrorCode::kUsage, 8));
  EXPECT_NE(caught(action), failure(ErrorCode::kUsage));
  EXPECT_NE(caught(action), failure(ErrorCode::kOpenFailed, 7));
  EXPECT_NE(caught([] {}), failure(ErrorCode::kUsage));
  EXPECT_EQ(caught(action).code, ErrorCode::kUsage);
  EXPECT_NE(caught(action).code, ErrorCode::kOpenFailed);
  EXPECT_EQ(caught([] {}).code, std::nullopt);
  EXPECT_THROW(caught([] { throw std::runtime_error("x"); }), std::runtime_error);
}

}  // namespace
}  // namespace tzmark
