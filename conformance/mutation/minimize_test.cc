// What is left of files of the corpus when they are shrunk for a reader that leaves one rule out.
#include "mutation/minimize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "model/corpus_files.h"
#include "mutation/consistent.h"
#include "mutation/reduce.h"

namespace tzmark::conformance::mutation {
namespace {

using model::CorpusCase;

std::vector<std::string> refusals(model::Bytes file, const model::Secret& secret,
                                  const std::set<std::string>& without = {}) {
  std::vector<std::string> rules;
  for (const model::Defect& defect : model::describe(file, secret, without).defects) {
    if (model::refuses_verify(defect)) rules.push_back(defect.rule);
  }
  return rules;
}

// Whether the file breaks the rule first, and a reader without it verifies the file.
bool is_caught_alone(model::Bytes file, const model::Secret& secret, const std::string& rule) {
  const auto rules = refusals(file, secret);
  return !rules.empty() && rules.front() == rule && refusals(file, secret, {rule}).empty();
}

// For each rule the first case that it alone refuses.
std::map<std::string, CorpusCase> cases_by_rule() {
  std::map<std::string, CorpusCase> cases;
  for (const CorpusCase& item : model::corpus_cases()) {
    if (item.file.extension() != ".tensors" || item.rules.empty()) continue;
    const std::vector<std::byte> file = model::bytes_of(item.file);
    for (const std::string& rule : item.rules) {
      if (!cases.contains(rule) && is_caught_alone(file, item.secret, rule)) cases.emplace(rule, item);
    }
  }
  return cases;
}

TEST(Minimize, LeavesTheOneThingThatCounts) {
  const auto cases = cases_by_rule();
  EXPECT_GT(cases.size(), 50);
  for (const auto& [rule, item] : cases) {
    // A file that two layouts can read is a work of art.
    if (rule == "TZR-HDR-008") continue;
    SCOPED_TRACE(rule + " in " + item.id);
    const std::vector<std::byte> file = model::bytes_of(item.file);
    const auto holds = [&, &broken = rule, &secret = item.secret](model::Bytes candidate) {
      return is_caught_alone(candidate, secret, broken);
    };
    const Minimized minimized = minimize(format_of_name("tensorizer"), file, item.secret, holds);
    EXPECT_TRUE(minimized.finished);
    EXPECT_TRUE(holds(minimized.file));
    // The largest have two key derivations of 56 bytes; the limit on derivations takes nine tensors.
    EXPECT_LE(minimized.file.size(), rule == "TZR-CRY-015" ? 2300 : 370);
  }
}

TEST(Minimize, FindsTheTensorsThatAreNeeded) {
  const auto cases = model::corpus_cases();
  const auto many = std::max_element(cases.begin(), cases.end(), [](const CorpusCase& a, const CorpusCase& b) {
    const auto tensors = [](const CorpusCase& c) {
      // Files of thousands of tensors would only take longer.
      const bool is_large = c.id.starts_with("large-");
      return c.verdict == "valid" && !is_large && c.file.extension() == ".tensors" ? c.expected.at("tensors").size()
                                                                                   : 0;
    };
    return tensors(a) < tensors(b);
  });
  ASSERT_NE(many, cases.end());
  const auto file = model::bytes_of(many->file);
  const std::size_t had = many->expected.at("tensors").size();
  ASSERT_GT(had, 4);
  // Two that lie apart, by the bytes of their data.
  std::map<std::string, bool> wanted = {{many->expected["tensors"][1]["sha256"], false},
                                        {many->expected["tensors"][had - 2]["sha256"], false}};
  const auto holds = [&](model::Bytes candidate) {
    const model::Description description = model::describe(candidate, many->secret);
    if (description.document.is_null() || !refusals(candidate, many->secret).empty()) return false;
    for (auto& [hash, seen] : wanted) {
      const auto& tensors = description.document["tensors"];
      const auto has = [&, &h = hash](const model::Json& tensor) { return tensor["sha256"] == h; };
      if (std::none_of(tensors.begin(), tensors.end(), has)) return false;
    }
    return true;
  };
  ASSERT_TRUE(holds(file));
  const Minimized minimized = minimize(format_of_name("tensorizer"), file, many->secret, holds);
  const model::Description description = model::describe(minimized.file, many->secret);
  EXPECT_EQ(description.document["tensors"].size(), wanted.size());
  EXPECT_LT(minimized.file.size(), file.size() / 2);
}

TEST(Minimize, FindsTheDataThatCounts) {
  const auto cases = model::corpus_cases();
  const auto plain =
      std::find_if(cases.begin(), cases.end(), [](const auto& c) { return c.id == "malformed-base-v1"; });
  ASSERT_NE(plain, cases.end());
  const std::vector<std::byte> file = model::bytes_of(plain->file);
  std::optional<Draft> draft = take_apart(file, {});
  ASSERT_TRUE(draft);
  std::vector<std::byte> data(100'000);
  data[77'777] = std::byte{0xab};
  draft->tensors.back().dtype = "|u1";
  draft->tensors.back().shape = {1000, 100};
  draft->tensors.back().data = slice_of(data);
  const std::vector<std::byte> large = put_together(*draft);
  const auto holds = [](model::Bytes candidate) {
    if (!refusals(candidate, {}).empty()) return false;
    const auto fields = model::describe(candidate, {}).fields;
    return std::any_of(fields.begin(), fields.end(), [&](const model::Field& field) {
      const auto bytes = candidate.subspan(field.offset, field.size);
      return field.name == "data" && std::find(bytes.begin(), bytes.end(), std::byte{0xab}) != bytes.end();
    });
  };
  ASSERT_TRUE(holds(large));
  const Minimized minimized = minimize(format_of_name("tensorizer"), large, {}, holds);
  EXPECT_TRUE(holds(minimized.file));
  EXPECT_LT(minimized.file.size(), 200);
}

TEST(Minimize, ShrinksWhatHasNoStructure) {
  std::vector<std::byte> file(3000, std::byte{7});
  file[1234] = std::byte{1};
  const auto holds = [](model::Bytes candidate) {
    return std::find(candidate.begin(), candidate.end(), std::byte{1}) != candidate.end();
  };
  const Minimized minimized = minimize(format_of_name("tensorizer"), file, {}, holds);
  EXPECT_THAT(minimized.file, testing::ElementsAre(std::byte{1}));
  EXPECT_LT(minimized.candidates, 300);
}

TEST(Minimize, StopsInTimeWithWhatItHas) {
  const std::vector<std::byte> file(3000, std::byte{7});
  const Minimized minimized = minimize(format_of_name("tensorizer"), file, {}, [](model::Bytes) { return true; },
                                       {.elapsed_max = std::chrono::nanoseconds(0)});
  EXPECT_FALSE(minimized.finished);
  EXPECT_EQ(minimized.file, file);
  EXPECT_EQ(minimized.candidates, 0);
}

TEST(Reduce, LeavesWhatCannotGo) {
  std::vector<int> list(1000);
  std::iota(list.begin(), list.end(), 0);
  std::size_t tries = 0;
  const auto without = [&](std::size_t begin, std::size_t end) {
    ++tries;
    std::vector<int> rest(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(begin));
    rest.insert(rest.end(), list.begin() + static_cast<std::ptrdiff_t>(end), list.end());
    const bool holds = std::count(rest.begin(), rest.end(), 17) + std::count(rest.begin(), rest.end(), 900) == 2;
    if (holds) list = rest;
    return holds;
  };
  EXPECT_TRUE(reduce(list.size(), without));
  // Runs shorter than the 256th part of the list are not tried.
  EXPECT_LE(list.size(), 8);
  EXPECT_TRUE(reduce(list.size(), without));
  EXPECT_THAT(list, testing::ElementsAre(17, 900));
  EXPECT_FALSE(reduce(list.size(), without));
  EXPECT_LT(tries, 200);
}

TEST(Reduce, FindsTheLeastNumber) {
  for (const std::uint64_t least : {0u, 1u, 2u, 1000u, 99999u}) {
    std::uint64_t number = 100000;
    const auto to = [&](std::uint64_t smaller) {
      if (smaller < least) return false;
      number = smaller;
      return true;
    };
    EXPECT_TRUE(reduce_number(number, to));
    EXPECT_EQ(number, least);
  }
  EXPECT_FALSE(reduce_number(0, [](std::uint64_t) { return true; }));
}

}  // namespace
}  // namespace tzmark::conformance::mutation
