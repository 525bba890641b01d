// Is every reader caught that keeps keys or data under too little, or loses the end of a buffer?
//
// habits.json has, for each thing that a habit is about, the number of such readers, and for those that no case catches
// the reason why none can. The test writes the same file anew to the build directory, without reasons for new ones.
#include "planted_bugs/habits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "model/corpus_files.h"
#include "planted_bugs/caught.h"

namespace tzmark::conformance::planted {
namespace {

using model::CorpusCase;
using model::Description;
using model::Json;

constexpr std::size_t kReadersLeast = 90;

// Readers with habits differ from others only in what they accept.
const std::vector<CorpusCase>& valid_cases() {
  static const std::vector<CorpusCase> cases = [] {
    std::vector<CorpusCase> valid = model::corpus_cases();
    std::erase_if(valid, [](const CorpusCase& item) { return item.verdict != "valid"; });
    return valid;
  }();
  return cases;
}

// A right reader lists what the case expects, so its file need not be read.
bool catches_list(const CorpusCase& item, const Habit& habit) {
  Description description;
  description.document = item.expected;
  habit.lists(description.document);
  return is_caught(item, description);
}

bool catches_keys(const CorpusCase& item, const Habit& habit) {
  if (!item.secret.passphrase) return false;
  static const model::Ignores ignores_nothing = [](const model::Defect&, std::string_view) { return false; };
  const model::Mistakes mistakes{.ignores = ignores_nothing, .keeps_key_under = habit.keeps_key_under};
  return is_caught(item, model::describe(model::bytes_of(item.file), item.secret, mistakes));
}

// The id of a case that catches the reader; empty if there is none.
std::string catches(const Habit& habit) {
  for (const CorpusCase& item : valid_cases()) {
    if (habit.lists ? catches_list(item, habit) : catches_keys(item, habit)) return item.id;
  }
  return "";
}

Json committed() {
  std::ifstream file(std::string(std::getenv("TZMARK_SOURCE_DIR")) + "/conformance/planted_bugs/habits.json");
  return file ? Json::parse(file) : Json::object();
}

TEST(PlantedHabits, EachIsCaughtOrExplained) {
  const Json before = committed();
  Json now = Json::object();
  std::size_t planted = 0, explained = 0;
  std::set<std::string> names;
  for (const Habit& habit : habits()) {
    const std::string name = habit.about + ", " + habit.condition;
    EXPECT_TRUE(names.insert(name).second) << name << " is planted twice";
    Json& entry = now[habit.about];
    if (entry.is_null()) entry = {{"planted", 0}, {"not_caught", Json::object()}};
    entry["planted"] = entry["planted"].get<int>() + 1;
    ++planted;
    if (!catches(habit).empty()) continue;
    const Json known = before.value(habit.about, Json::object()).value("not_caught", Json::object());
    const std::string reason = known.value(habit.condition, "");
    EXPECT_FALSE(reason.empty()) << name << " is caught by no case and not explained";
    entry["not_caught"][habit.condition] = reason;
    ++explained;
  }
  std::ofstream(std::string(std::getenv("TZMARK_BUILD_DIR")) + "/habits.json") << now.dump(1) << '\n';
  EXPECT_EQ(before, now);
  EXPECT_GE(planted, kReadersLeast);
  fmt::print("{} readers with habits: {} caught, {} explained\n", planted, planted - explained, explained);
}

TEST(PlantedHabits, AreCaughtForWhatTheyChange) {
  Habit habit{.about = "nothing", .condition = "right", .lists = [](Json&) {}};
  EXPECT_EQ(catches(habit), "");
  habit.lists = [](Json& document) { document["tensors"].erase(std::size_t{0}); };
  EXPECT_NE(catches(habit), "");
  habit.lists = nullptr;
  habit.keeps_key_under = [](model::KeyDerivation derivation) { return derivation; };
  EXPECT_EQ(catches(habit), "");
}

}  // namespace
}  // namespace tzmark::conformance::planted
