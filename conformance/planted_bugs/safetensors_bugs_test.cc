// Is every mistake of a reader of safetensors caught by some case of the corpus?
//
// safetensors_planted.json has the number of planted bugs of each rule, and for each bug that no case catches the
// reason why. The test writes the same file anew to the build directory, without reasons for bugs that are new.
#include "planted_bugs/safetensors_bugs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "runner/file_content.h"
#include "runner/file_format.h"
#include "runner/manifest.h"
#include "safetensors_model/describe.h"

namespace tzmark::conformance::planted {
namespace {

using model::Json;
using safetensors::Profile;

constexpr std::size_t kBugsLeast = 300;
// Files beyond this take long, and say nothing that smaller ones do not; but for those of many tensors.
constexpr std::uint64_t kFileBytesMax = 1 << 18;

struct Subject {
  std::string id;
  bool is_valid = false;
  std::vector<std::byte> file;
  mutation::SafetensorsDraft draft;
  Json document;  // of an accepted file; null for others
};

std::vector<Subject> make_subjects() {
  std::vector<Subject> subjects;
  const Manifest manifest =
      load_manifest(std::filesystem::path(std::getenv("TZMARK_BUILD_DIR")) / format_of_name("safetensors").corpus);
  for (const Case& item : manifest.cases) {
    if (item.size_bytes > kFileBytesMax || item.layout != "safetensors") continue;
    Subject& subject = subjects.emplace_back();
    subject.id = item.id;
    subject.is_valid = item.verdict == Verdict::kValid;
    subject.file = read_file(manifest.directory / item.path);
    auto draft = mutation::take_apart_safetensors(subject.file);
    // A reader that cannot take it apart at all makes no mistake here.
    if (!draft) {
      subjects.pop_back();
      continue;
    }
    subject.draft = std::move(*draft);
    subject.document = safetensors::describe(subject.file, Profile::kLibrary).document;
  }
  return subjects;
}

// A subject's draft refers to its file, which must stay where it is.
const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = make_subjects();
  return all;
}

// Whether the suite sees that a reader takes one file for another.
bool catches(const Subject& subject, const SafetensorsBug& bug) {
  mutation::SafetensorsDraft draft = subject.draft;
  if (!bug.misread(draft)) return subject.is_valid;
  const std::vector<std::byte> misread = write(draft);
  if (misread == subject.file) return false;
  const model::Description description = safetensors::describe(misread, Profile::kSpec);
  if (description.document.is_null()) return subject.is_valid;
  return description.document != subject.document;
}

// The id of a case that catches the bug; empty if there is none.
std::string catches(const SafetensorsBug& bug) {
  for (const Subject& subject : subjects()) {
    if (catches(subject, bug)) return subject.id;
  }
  return "";
}

SafetensorsBugs all_bugs() {
  SafetensorsBugs bugs = bugs_of_header();
  std::ranges::move(bugs_of_metadata(), std::back_inserter(bugs));
  std::ranges::move(bugs_of_tensors(), std::back_inserter(bugs));
  std::ranges::move(bugs_of_data(), std::back_inserter(bugs));
  return bugs;
}

Json committed() {
  std::ifstream file(std::string(std::getenv("TZMARK_SOURCE_DIR")) +
                     "/conformance/planted_bugs/safetensors_planted.json");
  return Json::parse(file);
}

TEST(SafetensorsBugs, EachIsCaughtOrExplained) {
  const Json before = committed();
  std::map<std::string, Json> now;
  std::set<std::string> names;
  std::size_t explained = 0;
  for (const SafetensorsBug& bug : all_bugs()) {
    EXPECT_TRUE(names.insert(bug.name).second) << bug.name << " is planted twice";
    Json& rule = now.try_emplace(bug.rule, Json{{"planted", 0}, {"not_caught", Json::object()}}).first->second;
    rule["planted"] = rule["planted"].get<int>() + 1;
    if (!catches(bug).empty()) continue;
    const Json known = before.value(bug.rule, Json::object()).value("not_caught", Json::object());
    const std::string reason = known.value(bug.name, "");
    rule["not_caught"][bug.name] = reason;
    EXPECT_FALSE(reason.empty()) << bug.rule << ": a reader that " << bug.name << " is caught by no case";
    ++explained;
  }
  Json written = Json::object();
  for (const auto& [id, rule] : now) written[id] = rule;
  std::ofstream(std::string(std::getenv("TZMARK_BUILD_DIR")) + "/safetensors_planted.json") << written.dump(1) << '\n';
  EXPECT_EQ(written, before) << "as it is now: safetensors_planted.json in the build directory";
  EXPECT_GE(names.size(), kBugsLeast);
  fmt::print("{} planted bugs: {} caught, {} explained\n", names.size(), names.size() - explained, explained);
}

TEST(SafetensorsBugs, AReaderWithoutOneIsNotCaught) {
  EXPECT_EQ(catches({"", "makes no mistake", [](mutation::SafetensorsDraft&) { return true; }}), "");
  EXPECT_NE(catches({"", "refuses everything", [](mutation::SafetensorsDraft&) { return false; }}), "");
}

TEST(SafetensorsBugs, CoverEveryRuleOfFiles) {
  std::set<std::string> planted, wanted;
  for (const SafetensorsBug& bug : all_bugs()) planted.insert(bug.rule);
  // A file without room for a length is too short for any other reading.
  for (int number = 2; number <= 15; ++number) wanted.insert(fmt::format("ST-{:03}", number));
  EXPECT_EQ(planted, wanted);
}

}  // namespace
}  // namespace tzmark::conformance::planted
