// The model of safetensors and the cases of both profiles agree, and its fields cover every file.
#include "safetensors_model/describe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace tzmark::conformance::safetensors {
namespace {

using model::Json;

const std::string& cases_directory() {
  static const std::string directory = std::string(std::getenv("TZMARK_SOURCE_DIR")) + "/reference/safetensors/cases/";
  return directory;
}

std::string content_of(const std::string& name) {
  std::ifstream file(cases_directory() + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

const model::Defect* first(const model::Description& description) {
  const auto found = std::ranges::find_if(description.defects, model::refuses_decode);
  return found == description.defects.end() ? nullptr : &*found;
}

void expect_cover(const model::Description& description, std::uint64_t size_bytes) {
  std::uint64_t at = 0;
  for (const model::Field& field : description.fields) {
    ASSERT_EQ(field.offset, at) << field.structure << ": " << field.name;
    ASSERT_GT(field.size, 0U);
    at += field.size;
  }
  EXPECT_EQ(at, size_bytes);
}

// A rule and its offset as the manifest has them: null if the profile accepts the file.
void expect_answer(const model::Description& description, const Json& wanted, const Json& expected) {
  const model::Defect* const defect = first(description);
  if (wanted.is_null()) {
    ASSERT_EQ(defect, nullptr) << defect->rule << ": " << model::sentence_of(*defect);
    EXPECT_EQ(nlohmann::json(description.document), nlohmann::json(expected));
    return;
  }
  ASSERT_NE(defect, nullptr) << "accepted";
  EXPECT_EQ(defect->rule, wanted.at("rule").get<std::string>()) << model::sentence_of(*defect);
  if (!wanted.at("offset").is_null()) {
    EXPECT_EQ(defect->offset, wanted.at("offset").get<std::uint64_t>()) << model::sentence_of(*defect);
  }
  EXPECT_TRUE(description.document.is_null());
}

// Models of several files have a description of their own.
Json cases_of_one_file() {
  Json found = Json::array();
  const Json manifest = Json::parse(content_of("manifest.json"));
  for (const Json& item : manifest.at("cases")) {
    if (item.at("layout") == "safetensors") found.push_back(item);
  }
  return found;
}

TEST(SafetensorsModel, AgreesWithEveryCaseInBothProfiles) {
  std::size_t count = 0;
  for (const Json& item : cases_of_one_file()) {
    SCOPED_TRACE(item.at("id").get<std::string>());
    const std::string file = content_of(item.at("path"));
    const auto bytes = std::as_bytes(std::span(file));
    const Json expected = item.contains("expected") ? Json::parse(content_of(item.at("expected"))) : Json();
    const model::Description by_spec = describe(bytes, Profile::kSpec);
    const model::Description by_library = describe(bytes, Profile::kLibrary);
    expect_answer(by_spec, item.at("safetensors").at("spec"), expected);
    expect_answer(by_library, item.at("safetensors").at("library"), expected);
    expect_cover(by_spec, file.size());
    expect_cover(by_library, file.size());
    ++count;
  }
  EXPECT_GT(count, 900U);
}

// Each rule is why some case is refused: a reader without it takes that case, or cannot go on.
TEST(SafetensorsModel, LeavesTheCheckOfARuleOut) {
  std::set<std::string> rules, missed;
  for (const Json& item : cases_of_one_file()) {
    const Json& wanted = item.at("safetensors").at("spec");
    if (wanted.is_null()) continue;
    const std::string rule = wanted.at("rule");
    const std::string file = content_of(item.at("path"));
    const auto description = describe(std::as_bytes(std::span(file)), Profile::kSpec, {rule});
    rules.insert(rule);
    for (const model::Defect& defect : description.defects) EXPECT_NE(defect.rule, rule) << item.at("id");
    if (first(description) == nullptr && !description.document.is_null()) missed.insert(rule);
  }
  EXPECT_EQ(rules.size(), 15U);
  // Those whose value a reader cannot do without.
  EXPECT_EQ(missed, (std::set<std::string>{"ST-004", "ST-005", "ST-007", "ST-008", "ST-009", "ST-011", "ST-012",
                                           "ST-013", "ST-014", "ST-015"}));
}

model::Description described(const std::string& header, std::size_t data_bytes, Profile profile) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  file += header + std::string(data_bytes, 'x');
  return describe(std::as_bytes(std::span(file)), profile);
}

TEST(SafetensorsModel, TensorsOfOnePlaceAreSortedByName) {
  const std::string empty = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  // The last one of a name counts, also for its place.
  const auto description =
      described(R"({"a":)" + empty + R"(,"b":)" + empty + R"(,"a":)" + empty + "}", 0, Profile::kLibrary);
  ASSERT_EQ(description.document["tensors"].size(), 2U);
  EXPECT_EQ(description.document["tensors"][0]["path"][0].get<std::string>(), "a");
  EXPECT_EQ(description.document["tensors"][1]["path"][0].get<std::string>(), "b");
}

TEST(SafetensorsModel, AnUnknownDtypeOfAnObjectIsSeenAtItsKey) {
  for (const char* const dtype : {R"({"XX":null})", R"({"XX":1})", R"({"XX":nul})", R"({"XX":null,"U8":null})"}) {
    const auto description = described(
        std::string(R"({"a":{"dtype":)") + dtype + R"(,"shape":[0],"data_offsets":[0,0]}})", 0, Profile::kLibrary);
    ASSERT_NE(first(description), nullptr) << dtype;
    EXPECT_EQ(first(description)->rule, "ST-010") << dtype;
    EXPECT_EQ(first(description)->offset, 23U) << dtype;
  }
}

// A description of nothing but defects would take a hundred times the memory of the file.
TEST(SafetensorsModel, EndsAfterManyDefects) {
  for (const char* const item : {R"("":1)", R"("a":{"x":0,"x":0})", R"("__metadata__":{"a":1})"}) {
    std::string header = "{";
    for (int i = 0; i < 20'000; ++i) header += std::string(i == 0 ? "" : ",") + item;
    const auto description = described(header + "}", 0, Profile::kSpec);
    EXPECT_LE(description.defects.size(), 1'000U) << item;
    EXPECT_NE(first(description), nullptr) << item;
    EXPECT_LT(description.fields.size(), 10'000U) << item;
    expect_cover(description, 8 + header.size() + 1);
  }
}

TEST(SafetensorsModel, CutFilesAreRefused) {
  const std::string file = content_of("metadata.safetensors");
  for (std::size_t size = 0; size < file.size(); ++size) {
    const auto description = describe(std::as_bytes(std::span(file)).first(size), Profile::kLibrary);
    EXPECT_NE(first(description), nullptr) << size;
    expect_cover(description, size);
  }
}

}  // namespace
}  // namespace tzmark::conformance::safetensors
