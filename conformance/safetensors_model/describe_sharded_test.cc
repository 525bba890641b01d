// The model of several safetensors files and its cases agree.
#include "safetensors_model/describe_sharded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace tzmark::conformance::safetensors {
namespace {

using model::Json;

std::optional<std::string> content_of_case(const std::string& name) {
  std::ifstream file(std::string(std::getenv("TZMARK_SOURCE_DIR")) + "/reference/safetensors/cases/" + name,
                     std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Json sharded_cases() {
  Json found = Json::array();
  const Json manifest = Json::parse(content_of_case("manifest.json").value());
  for (const Json& item : manifest.at("cases")) {
    if (item.at("layout") == "safetensors-sharded") found.push_back(item);
  }
  return found;
}

model::Description describe_case(const Json& item, Profile profile, const std::set<std::string>& without = {}) {
  const auto path = item.at("path").get<std::string>();
  const std::string index = content_of_case(path).value();
  const auto open_shard = [&](const std::string& name) {
    return content_of_case(path.substr(0, path.rfind('/') + 1) + name);
  };
  return describe_sharded(std::as_bytes(std::span(index)), open_shard, profile, without);
}

TEST(ShardedModel, AgreesWithEveryCaseInBothProfiles) {
  std::size_t valid = 0, invalid = 0;
  for (const Json& item : sharded_cases()) {
    SCOPED_TRACE(item.at("id").get<std::string>());
    for (const auto& [profile, name] : {std::pair(Profile::kSpec, "spec"), std::pair(Profile::kLibrary, "library")}) {
      const model::Description description = describe_case(item, profile);
      const Json& wanted = item.at("safetensors").at(name);
      ++(wanted.is_null() ? valid : invalid);
      if (wanted.is_null()) {
        EXPECT_TRUE(description.defects.empty()) << description.defects.front().rule;
        const Json expected = Json::parse(content_of_case(item.at("expected")).value());
        EXPECT_EQ(nlohmann::json(description.document), nlohmann::json(expected));
        continue;
      }
      ASSERT_EQ(description.defects.size(), 1U);
      EXPECT_EQ(description.defects.front().rule, wanted.at("rule").get<std::string>());
      EXPECT_TRUE(description.document.is_null());
    }
  }
  EXPECT_GT(valid, 40U);
  EXPECT_GT(invalid, 90U);
}

// Each rule of an index is why some case is refused.
TEST(ShardedModel, LeavesTheCheckOfARuleOut) {
  std::set<std::string> missed;
  for (const Json& item : sharded_cases()) {
    const Json& wanted = item.at("safetensors").at("spec");
    if (wanted.is_null()) continue;
    const std::string rule = wanted.at("rule");
    try {
      if (describe_case(item, Profile::kSpec, {rule}).defects.empty()) missed.insert(rule);
    } catch (const std::runtime_error&) {
      // Nothing is where the name leads.
    }
  }
  EXPECT_TRUE(missed.contains("ST-016"));
  EXPECT_TRUE(missed.contains("ST-017"));
}

TEST(ShardedModel, AShardThatIsNotThereIsNoDefect) {
  const std::string index = R"({"weight_map": {"a": "absent.safetensors"}})";
  const auto open_shard = [](const std::string&) { return std::optional<std::string>(); };
  EXPECT_THROW(describe_sharded(std::as_bytes(std::span(index)), open_shard, Profile::kSpec), std::runtime_error);
}

}  // namespace
}  // namespace tzmark::conformance::safetensors
