// Every case of cases/manifest.json and cases/calls.json, under both profiles: verdict, rule, byte offset and content.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "bytes/digest.h"
#include "testing/caught.h"
#include "testing/files/source_file.h"
#include "testing/files/test_directory.h"
#include "tzmark/safetensors.h"

namespace tzmark {
namespace {

using nlohmann::json;

std::string cases_directory() {
  return std::string(std::getenv("TZMARK_SOURCE_DIR")) + "/reference/safetensors/cases/";
}

json cases_in(const std::string& list) {
  return json::parse(test::read_source_file("reference/safetensors/cases/" + list))["cases"];
}

// The cases of both lists in the form of calls.json.
json all_cases() {
  json cases = cases_in("calls.json");
  for (const json& entry : cases_in("manifest.json")) {
    json& added = cases.emplace_back(entry["safetensors"]);
    added["id"] = entry["id"];
    added["file"] = entry["path"];
    added["request"] = nullptr;
  }
  return cases;
}

SafetensorsReadOptions options_of(SafetensorsProfile profile) {
  SafetensorsReadOptions options;
  options.profile = profile;
  options.threads = 2;
  options.piece_bytes = 4096;
  return options;
}

// As the lists tell it: null, or rule and offset.
json verdict_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    json verdict = {{"rule", std::string(error.rule())}, {"offset", nullptr}};
    if (error.offset()) verdict["offset"] = *error.offset();
    return verdict;
  }
  return nullptr;
}

// What is wrong with a verdict, empty if nothing is. A list that tells no offset leaves it open.
std::string disagreement(const json& expected, json verdict) {
  if (!expected.is_null() && !verdict.is_null() && expected["offset"].is_null()) verdict["offset"] = nullptr;
  return verdict == expected ? "" : "expected " + expected.dump() + ", got " + verdict.dump();
}

void expect_content(const SafetensorsReader& reader, const json& content) {
  const json& tensors = content["tensors"];
  ASSERT_EQ(reader.size(), tensors.size());
  EXPECT_EQ(json(reader.metadata()), content["metadata"]);
  std::map<std::size_t, Sha256Digest> digests;
  reader.scan(
      [&](std::size_t tensor, const Sha256Digest& digest) { EXPECT_TRUE(digests.emplace(tensor, digest).second); });
  ASSERT_EQ(digests.size(), reader.size());
  for (std::size_t i = 0; i < reader.size(); ++i) {
    const SafetensorsTensor tensor = reader[i];
    EXPECT_EQ(tensor.name, tensors[i]["name"].get<std::string>());
    EXPECT_EQ(tensor.dtype, tensors[i]["dtype"].get<std::string>());
    EXPECT_EQ(json(std::vector<std::uint64_t>(tensor.shape.begin(), tensor.shape.end())), tensors[i]["shape"]);
    EXPECT_EQ(json({tensor.begin, tensor.end}), tensors[i]["data_offsets"]);
    EXPECT_EQ(reader.find(tensor.name), i);
    std::vector<std::byte> data(tensor.data_length());
    reader.read(i, std::span(data));
    EXPECT_EQ(digests.at(i), sha256(data));
  }
}

// The data that a reader hands out is what lies in the file, read here without it.
void expect_data_of_file(const SafetensorsReader& reader, const std::string& directory) {
  for (std::size_t i = 0; i < reader.size(); ++i) {
    const SafetensorsTensor tensor = reader[i];
    const SafetensorsShard& shard = reader.shards()[tensor.shard];
    const test::Bytes file = test::read_whole(directory + shard.file_name);
    ASSERT_LE(shard.data_begin + tensor.end, file.size());
    const auto begin = file.begin() + static_cast<std::ptrdiff_t>(shard.data_begin + tensor.begin);
    std::vector<std::byte> data(tensor.data_length());
    reader.read(tensor.name, std::span(data));
    EXPECT_EQ(data, test::Bytes(begin, begin + static_cast<std::ptrdiff_t>(tensor.data_length())));
  }
}

TEST(Cases, HaveTheVerdictsOfTheLists) {
  const json cases = all_cases();
  ASSERT_GT(cases.size(), 900U);
  for (const json& entry : cases) {
    for (const auto profile : {SafetensorsProfile::kSpec, SafetensorsProfile::kLibrary}) {
      const std::string_view profile_name = safetensors_profile_name(profile);
      SCOPED_TRACE(entry["id"].get<std::string>() + " as " + std::string(profile_name));
      const std::string file = cases_directory() + entry["file"].get<std::string>();
      const json& expected = entry[std::string(profile_name)];
      const json verdict = verdict_of([&] {
        const SafetensorsReader reader = SafetensorsReader::open(file, options_of(profile));
        reader.verify();
        expect_content(reader, entry["content"]);
        expect_data_of_file(reader, file.substr(0, file.rfind('/') + 1));
      });
      EXPECT_EQ(disagreement(expected, verdict), "");
    }
  }
}

TEST(Cases, AnswerTheRequestsOfTheLists) {
  std::size_t requests = 0;
  for (const json& entry : all_cases()) {
    const json& request = entry["request"];
    if (request.is_null()) continue;
    SCOPED_TRACE(entry["id"].get<std::string>());
    const SafetensorsReader reader = SafetensorsReader::open(cases_directory() + entry["file"].get<std::string>());
    std::vector<std::byte> memory(request.value("bytes", 0U));
    const json verdict = verdict_of([&] { reader.read(request["name"].get<std::string>(), std::span(memory)); });
    ASSERT_FALSE(verdict.is_null());
    EXPECT_EQ(verdict["rule"], request["rule"]);
    ++requests;
  }
  EXPECT_GE(requests, 4U);
}

TEST(Cases, CoverEveryRuleAndEveryErrorOfTheLibraryTwice) {
  std::map<std::string, std::size_t> rules, errors;
  for (const json& entry : all_cases()) {
    if (!entry["spec"].is_null()) ++rules[entry["spec"]["rule"]];
    const json& error = entry["request"].is_null() ? entry["library_error"] : entry["request"]["library_error"];
    if (!error.is_null()) ++errors[error];
  }
  std::size_t count = 0;
  const ErrorInfo* const table = error_table(count);
  for (const ErrorInfo& row : std::span(table, count)) {
    // A file cannot break what binds writers.
    if (!row.rule.starts_with("ST-") || row.error_class != ErrorClass::kFile) continue;
    EXPECT_GE(rules[std::string(row.rule)], 2U) << row.rule;
  }
  for (const char* error : {"HeaderTooSmall", "HeaderTooLarge", "InvalidHeaderLength", "InvalidHeader",
                            "InvalidHeaderDeserialization", "InvalidOffset", "ValidationOverflow", "MisalignedSlice",
                            "TensorInvalidInfo", "MetadataIncompleteBuffer", "TensorNotFound", "InvalidTensorView"}) {
    EXPECT_GE(errors[error], 2U) << error;
    errors.erase(error);
  }
  EXPECT_THAT(errors, ::testing::IsEmpty());
}

TEST(Cases, ComparisonSeesDifferences) {
  const json verdict = {{"rule", "ST-005"}, {"offset", 8}};
  EXPECT_EQ(disagreement(verdict, verdict), "");
  EXPECT_EQ(disagreement({{"rule", "ST-005"}, {"offset", nullptr}}, verdict), "");
  EXPECT_NE(disagreement({{"rule", "ST-005"}, {"offset", 9}}, verdict), "");
  EXPECT_NE(disagreement({{"rule", "ST-006"}, {"offset", 8}}, verdict), "");
  EXPECT_NE(disagreement(nullptr, verdict), "");
  EXPECT_NE(disagreement(verdict, nullptr), "");
  EXPECT_EQ(disagreement(nullptr, nullptr), "");
  EXPECT_EQ(verdict_of([] { throw Error(ErrorCode::kStHeaderStart, "x", 8); }), verdict);
}

}  // namespace
}  // namespace tzmark
