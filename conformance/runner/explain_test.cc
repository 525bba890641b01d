// Tests of explanations: each member of canonical JSON leads to its bytes, each defect to its place.
#include "runner/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/file_format.h"
#include "testing/test_corpus.h"

namespace tzmark::conformance {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

Case case_about(std::vector<std::string> rules) {
  Case item;
  item.rules = std::move(rules);
  item.why = "why";
  return item;
}

std::optional<Explanation> explained(const std::string& file, const Case& item, const Step& step) {
  const auto bytes = std::as_bytes(std::span(file));
  return explain(item, step, bytes, model::describe(bytes, {}));
}

// The field that is marked.
const model::Annotated* marked(const Explanation& explanation) {
  for (const model::Annotated& row : explanation.bytes) {
    if (row.marked) return &row;
  }
  return nullptr;
}

TEST(Explain, MembersLeadToTheirBytes) {
  // As the table of the worked example says.
  const std::vector<std::pair<const char*, std::uint64_t>> places = {
      {"/data_version", 5},       {"/tensors/0/path/0", 75},       {"/tensors/0/kind", 76},
      {"/tensors/0/dtype", 78},   {"/tensors/0/wire_dtype", 78},   {"/tensors/0/shape/0", 81},
      {"/tensors/0/meta", 102},   {"/tensors/0/data_length", 102}, {"/tensors/0/module_index", 118},
      {"/tensors/0/sha256", 184}, {"/tensors/0/crc32_field", 138}, {"/tensors/0/sha256_field", 144}};
  for (const auto& [pointer, offset] : places) {
    Step step;
    step.outcome = Outcome::kWrongData;
    step.answer.kind = AnswerKind::kAccepted;
    step.difference = Difference{pointer, 1, 2};
    const auto explanation = explained(worked_example(), case_about({"TZR-HDR-003"}), step);
    ASSERT_TRUE(explanation) << pointer;
    EXPECT_EQ(explanation->rule, "TZR-HDR-003");
    EXPECT_EQ(explanation->offset, offset) << pointer;
    ASSERT_TRUE(marked(*explanation)) << pointer;
    EXPECT_EQ(marked(*explanation)->offset, offset) << pointer;
  }
}

TEST(Explain, MembersOfSafetensorsLeadToTheirBytes) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  std::string file = {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  file += header + "xy";
  const auto bytes = std::as_bytes(std::span(file));
  const auto at = [&](std::string_view text) { return static_cast<std::uint64_t>(file.find(text)); };
  const std::vector<std::pair<const char*, std::uint64_t>> places = {{"/tensors/0/path/0", at("\"a\"")},
                                                                     {"/tensors/0/dtype", at("\"U8\"")},
                                                                     {"/tensors/0/shape/0", at("[2]")},
                                                                     {"/tensors/0/data_length", at("[0,2]")},
                                                                     {"/tensors/0/sha256", at("xy")}};
  for (const auto& [pointer, offset] : places) {
    Step step;
    step.outcome = Outcome::kWrongData;
    step.answer.kind = AnswerKind::kAccepted;
    step.difference = Difference{pointer, 1, 2};
    const auto explanation =
        explain(case_about({"ST-013"}), step, bytes, format_of_layout("safetensors").describe(bytes, {}, {}));
    ASSERT_TRUE(explanation) << pointer;
    ASSERT_TRUE(marked(*explanation)) << pointer;
    EXPECT_EQ(marked(*explanation)->offset, offset) << pointer;
  }
}

// A valid file exercises many rules. Which one a reader misses is unknown unless it says so.
TEST(Explain, ValidFilesBlameOneOfTheirRulesOnlyIfThereIsOne) {
  Step step;
  step.outcome = Outcome::kWrongData;
  step.answer.kind = AnswerKind::kAccepted;
  step.difference = Difference{"/tensors/0/path/0", 1, 2};
  EXPECT_EQ(explained(worked_example(), case_about({"TZR-HDR-001"}), step)->rule, "TZR-HDR-001");
  EXPECT_EQ(explained(worked_example(), case_about({"TZR-HDR-001", "TZR-NAM-001"}), step)->rule, "");
  Case open = case_about({"TZR-HDR-001", "TZR-NAM-001"});
  open.verdict = Verdict::kImplementationDefined;
  EXPECT_EQ(explained(worked_example(), open, step)->rule, "TZR-HDR-001");
  step.difference.reset();
  step.outcome = Outcome::kCrash;
  step.answer.kind = AnswerKind::kNone;
  EXPECT_FALSE(explained(worked_example(), case_about({"TZR-HDR-001", "TZR-NAM-001"}), step));
}

TEST(Explain, DefectsLeadToTheirPlace) {
  std::string file = worked_example();
  file[76] = '\x05';
  Step step;
  step.outcome = Outcome::kAcceptedInvalid;
  step.answer.kind = AnswerKind::kAccepted;
  const auto explanation = explained(file, case_about({"TZR-IDX-004"}), step);
  ASSERT_TRUE(explanation);
  EXPECT_EQ(explanation->rule, "TZR-IDX-004");
  EXPECT_EQ(explanation->offset, 76u);
  EXPECT_EQ(marked(*explanation)->hex, "05");
}

TEST(Explain, RejectionsLeadWhereTheAdapterSays) {
  Step step;
  step.outcome = Outcome::kRejectedValid;
  step.answer.kind = AnswerKind::kRejected;
  step.answer.rejection = {"TZR-HDR-005", 57, "no tensors"};
  auto explanation = explained(worked_example(), case_about({"TZR-HDR-001"}), step);
  ASSERT_TRUE(explanation);
  EXPECT_EQ(explanation->rule, "TZR-HDR-005");
  EXPECT_THAT(explanation->bytes, Not(IsEmpty()));
  step.answer.rejection = {std::nullopt, std::uint64_t{1} << 60, "far away"};
  EXPECT_FALSE(explained(worked_example(), case_about({}), step)) << "neither rule nor place";
}

TEST(SecretOf, KeysAreHex) {
  Case item;
  EXPECT_FALSE(secret_of(item).key);
  item.key_hex = std::string(62, '0') + "fE";
  EXPECT_EQ(secret_of(item).key->back(), 0xfe);
  item.key_hex = "00ff";
  EXPECT_FALSE(secret_of(item).key) << "no key of this format";
  item.passphrase = "sesame";
  EXPECT_EQ(secret_of(item).passphrase, "sesame");
}

}  // namespace
}  // namespace tzmark::conformance
