// Every case of the corpus in this process, so that sanitizers see them too. The suite judges the same cases from
// outside, through the adapter.
#include "testing/files/corpus.h"

#include <gtest/gtest.h>

#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"
#include "tzmark/canonical.h"

namespace tzmark {
namespace {

using nlohmann::json;
using test::load_json;
using test::manifest;
using test::open_case;

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

// The rule by which a writer refuses to write what action has read.
template <typename Action>
std::string broken_name(Action&& action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
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

// Into another layout and back: nothing of a tensor changes, its hashes included.
TEST(Corpus, V1ToV4ToV1IsByteIdentical) {
  int compared = 0;
  for (const json& test : manifest().at("cases")) {
    if (test.at("verdict") != "valid" || test.at("layout") != "v1") continue;
    SCOPED_TRACE(test.at("id").get<std::string>());
    const auto write = [](const Reader& reader, const TensorTable& table, Layout layout) {
      WriteOptions options;
      options.layout = layout;
      MemoryFile file;
      write_tensors(file, table, reader, options);
      return file.content();
    };
    const Reader original = open_case(test);
    std::optional<TensorTable> table;
    const std::string refused = broken_name([&] { table = writable_table(original); });
    if (!table || original.layout() != Layout::kV1) {
      EXPECT_TRUE(refused.empty() || refused == "TZR-NAM-009") << refused;
      continue;
    }
    std::vector<std::byte> v1;
    // Readers take types of later layouts, writers do not store them.
    const std::string unwritten = broken_name([&] { v1 = write(original, *table, Layout::kV1); });
    if (!unwritten.empty()) {
      EXPECT_EQ(unwritten, "TZR-HDR-006");
      continue;
    }
    const Reader first = test::open_bytes(v1);
    const Reader v4 = test::open_bytes(write(first, writable_table(first), Layout::kV4));
    EXPECT_EQ(v4.layout(), Layout::kV4);
    EXPECT_EQ(write(v4, writable_table(v4), Layout::kV1), v1);
    ++compared;
    // What upstream wrote comes back as it was: recipes also make hashes and names that no writer writes.
    if (!test.at("origin").contains("emitter")) continue;
    EXPECT_EQ(json::parse(canonical_json(first)), json::parse(canonical_json(original)));
  }
  EXPECT_GT(compared, 80);
}

}  // namespace
}  // namespace tzmark
