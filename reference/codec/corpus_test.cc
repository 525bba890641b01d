// Every case of the corpus in this process, so that sanitizers see them too. The suite judges the same cases from
// outside, through the adapter.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "codec/test_files.h"
#include "tzmark/canonical.h"

namespace tzmark {
namespace {

using nlohmann::json;

std::string corpus_folder() {
  const char* build = std::getenv("TZMARK_BUILD_DIR");
  return std::string(build != nullptr ? build : ".") + "/share/tzmark/corpus/";
}

json load_json(const std::string& name) {
  std::ifstream stream(corpus_folder() + name);
  if (!stream) throw std::runtime_error("cannot open " + corpus_folder() + name);
  return json::parse(stream);
}

const json& manifest() {
  static const json manifest = load_json("manifest.json");
  return manifest;
}

Reader open_case(const json& test) {
  ReadOptions options;
  if (test.contains("key_hex")) options.key = key_from_hex(test.at("key_hex").get<std::string>());
  if (test.contains("passphrase")) options.key = Passphrase(test.at("passphrase").get<std::string>());
  return Reader::open(corpus_folder() + test.at("path").get<std::string>(), std::move(options));
}

// The rule that decoding or verifying breaks, or an empty string.
template <typename Action>
std::string broken_rule(Action&& action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::kFile) << error.what();
    return std::string(error.rule());
  }
}

bool cites(const json& test, const std::string& rule) {
  const json& rules = test.at("rules");
  return std::find(rules.begin(), rules.end(), rule) != rules.end();
}

void run(const json& test) {
  const std::string verdict = test.at("verdict");
  std::string decoded;
  const std::string decode = broken_rule([&] { decoded = canonical_json(open_case(test)); });
  const std::string verify = broken_rule([&] { open_case(test).verify(); });
  const bool may_decode = verdict == "valid" || verdict == "integrity-failure" || verdict == "implementation-defined";
  if (verdict == "valid") {
    EXPECT_EQ(decode, "");
    EXPECT_EQ(verify, "");
  } else if (verdict == "integrity-failure") {
    EXPECT_EQ(decode, "");
    EXPECT_TRUE(cites(test, verify)) << "verify broke " << verify;
  } else if (!may_decode) {
    EXPECT_TRUE(cites(test, decode)) << "decode broke " << decode;
    EXPECT_TRUE(cites(test, verify)) << "verify broke " << verify;
  }
  if (decode.empty() && test.contains("expected")) {
    EXPECT_EQ(json::parse(decoded), load_json(test.at("expected").get<std::string>()));
  }
}

TEST(Corpus, EveryCaseGetsItsVerdictForTheRightReason) {
  ASSERT_GT(manifest().at("cases").size(), 700U);
  for (const json& test : manifest().at("cases")) {
    SCOPED_TRACE(test.at("id").get<std::string>());
    run(test);
  }
}

}  // namespace
}  // namespace tzmark
