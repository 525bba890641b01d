// Is every reader caught that reads an integer field as a number of another type?
//
// widths.json has, for each field, the number of such readers, and for those that no case catches their layouts and the
// reason why none can. The test writes the same file anew to the build directory, without reasons for new ones.
#include "planted_bugs/widths.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "model/corpus_files.h"
#include "planted_bugs/caught.h"

namespace tzmark::conformance::planted {
namespace {

using model::Json;
using model::Mistakes;
using model::NumberField;

constexpr std::size_t kReadersLeast = 700;

const model::Ignores kIgnoresNothing = [](const model::Defect&, std::string_view) { return false; };

// The layouts in which an implementation usually shares its code; the file header is read before the layout is known.
std::string family_of(const NumberField& at) {
  if (at.structure.name == "file header") return "all layouts";
  return at.layout.size() == 2 ? "v1 to v4" : std::string(at.layout);
}

struct Subject {
  model::CorpusCase item;
  std::vector<std::byte> bytes;
};

// A field in the layouts of a family.
struct Place {
  std::string structure;
  std::string field;
  std::uint64_t size = 0;
  std::string family;

  auto operator<=>(const Place&) const = default;
};

Place place_of(const NumberField& at) { return {at.structure.kind(), std::string(at.field), at.size, family_of(at)}; }

class Corpus {
 public:
  Corpus() {
    for (model::CorpusCase& item : model::corpus_cases()) {
      if (std::filesystem::file_size(item.file) > kFileBytesMax) continue;
      std::vector<std::byte> bytes = model::bytes_of(item.file);
      subjects_.push_back({std::move(item), std::move(bytes)});
      meet_numbers(subjects_.size() - 1);
    }
  }

  // The id of a case that catches the reader; empty if there is none.
  std::string catches(const Place& place, const Width& width) const {
    const auto found = numbers_.find(place);
    if (found == numbers_.end()) return "";
    const auto misreads = [&](const NumberField& at, std::uint64_t number) {
      const std::uint64_t taken = width.take(number);
      return taken != number && at.field == place.field && place_of(at) == place ? taken : number;
    };
    for (const auto& [subject, numbers] : found->second) {
      const auto changes = [&](std::uint64_t number) { return width.take(number) != number; };
      if (std::ranges::none_of(numbers, changes)) continue;
      const auto& [item, bytes] = subjects_[subject];
      const model::Description description = model::describe(bytes, item.secret, Mistakes{kIgnoresNothing, misreads});
      if (is_caught(item, description)) return item.id;
    }
    return "";
  }

  std::set<std::string> families_of(const IntegerField& field) const {
    std::set<std::string> families;
    for (const auto& [place, met] : numbers_) {
      if (place.structure == field.structure && place.field == field.field && place.size == field.size) {
        families.insert(place.family);
      }
    }
    return families;
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& [place, met] : numbers_) names.insert(fmt::format("{}: {}", place.structure, place.field));
    return names;
  }

 private:
  void meet_numbers(std::size_t subject) {
    const auto meets = [&](const NumberField& at, std::uint64_t number) {
      numbers_[place_of(at)][subject].insert(number);
      return number;
    };
    model::describe(subjects_[subject].bytes, subjects_[subject].item.secret, Mistakes{kIgnoresNothing, meets});
  }

  std::vector<Subject> subjects_;
  std::map<Place, std::map<std::size_t, std::set<std::uint64_t>>> numbers_;  // by the number of the subject
};

const Corpus& corpus() {
  static const Corpus all;
  return all;
}

Json committed() {
  std::ifstream file(std::string(std::getenv("TZMARK_SOURCE_DIR")) + "/conformance/planted_bugs/widths.json");
  return file ? Json::parse(file) : Json::object();
}

TEST(PlantedWidths, EachIsCaughtOrExplained) {
  const Json before = committed();
  Json now = Json::object();
  std::size_t planted = 0, explained = 0;
  for (const IntegerField& field : integer_fields()) {
    Json& entry = now[field.name()] = {{"planted", 0}, {"not_caught", Json::object()}};
    for (const Width& width : widths_of(field)) {
      Json layouts = Json::array();
      for (const std::string& family : corpus().families_of(field)) {
        entry["planted"] = entry["planted"].get<int>() + 1;
        ++planted;
        if (!corpus().catches({field.structure, field.field, field.size, family}, width).empty()) continue;
        layouts.push_back(family);
        ++explained;
      }
      if (layouts.empty()) continue;
      const Json known = before.value(field.name(), Json::object()).value("not_caught", Json::object());
      const std::string reason = known.value(width.name, Json::object()).value("reason", "");
      EXPECT_FALSE(reason.empty()) << field.name() << " read as " << width.name << " in " << layouts.dump()
                                   << " is caught by no case and not explained";
      entry["not_caught"][width.name] = {{"in", layouts}, {"reason", reason}};
    }
    EXPECT_GT(entry["planted"].get<int>(), 0) << field.name() << " is in no file";
  }
  std::ofstream(std::string(std::getenv("TZMARK_BUILD_DIR")) + "/widths.json") << now.dump(1) << '\n';
  EXPECT_EQ(before, now);
  EXPECT_GE(planted, kReadersLeast);
  fmt::print("{} readers of other widths: {} caught, {} explained\n", planted, planted - explained, explained);
}

TEST(PlantedWidths, AreOfEveryNumberThatTheModelReads) {
  std::set<std::string> fields;
  for (const IntegerField& field : integer_fields()) fields.insert(field.structure + ": " + field.field);
  EXPECT_EQ(corpus().names(), fields);
}

TEST(PlantedWidths, AreCaughtForWhatTheyMisread) {
  const Place place{"index", "index_length", 8, "v1 to v4"};
  EXPECT_EQ(corpus().catches(place, {"u64", [](std::uint64_t number) { return number; }}), "");
  EXPECT_NE(corpus().catches(place, {"0", [](std::uint64_t) { return std::uint64_t{0}; }}), "");
}

}  // namespace
}  // namespace tzmark::conformance::planted
