// The model and the corpus agree on every file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/corpus_files.h"

namespace tzmark::conformance::model {
namespace {

const Defect* first(const Description& description, bool (*refuses)(const Defect&)) {
  const auto found = std::find_if(description.defects.begin(), description.defects.end(), refuses);
  return found == description.defects.end() ? nullptr : &*found;
}

std::string text_of(const Description& description) {
  std::string text;
  for (const Defect& defect : description.defects) text += "\n  " + defect.rule + " " + sentence_of(defect);
  return text;
}

void expect_document(const Description& description, const Json& expected) {
  // Through a JSON without order, for the order of members does not matter.
  EXPECT_EQ(nlohmann::json(description.document), nlohmann::json(expected)) << text_of(description);
}

void expect_refusal(const Description& description, const CorpusCase& item) {
  const Defect* defect = first(description, refuses_decode);
  ASSERT_TRUE(defect) << "not refused";
  EXPECT_THAT(item.rules, testing::Contains(defect->rule)) << text_of(description);
  EXPECT_TRUE(description.document.is_null());
}

void expect_verdict(const Description& description, const CorpusCase& item) {
  if (item.verdict == "valid") {
    EXPECT_FALSE(first(description, refuses_verify)) << text_of(description);
    expect_document(description, item.expected);
  } else if (item.verdict == "integrity-failure") {
    const Defect* defect = first(description, refuses_verify);
    ASSERT_TRUE(defect) << "verifies";
    EXPECT_EQ(defect->kind, Defect::Kind::kIntegrity);
    EXPECT_THAT(item.rules, testing::Contains(defect->rule)) << text_of(description);
    expect_document(description, item.expected);
  } else if (item.verdict == "implementation-defined") {
    if (!first(description, refuses_decode) && !item.expected.is_null()) expect_document(description, item.expected);
  } else {
    expect_refusal(description, item);
  }
}

// Fields lie one behind another from the first byte to the last.
void expect_cover(const Description& description, std::uint64_t size_bytes) {
  std::uint64_t at = 0;
  for (const Field& field : description.fields) {
    ASSERT_EQ(field.offset, at) << field.structure << ": " << field.name;
    at += field.size;
  }
  EXPECT_EQ(at, size_bytes);
}

TEST(Corpus, ModelAgreesWithEveryCase) {
  for (const CorpusCase& item : corpus_cases()) {
    SCOPED_TRACE(item.id + ", " + item.verdict);
    const std::vector<std::byte> file = bytes_of(item.file);
    const Description description = describe(file, item.secret);
    expect_verdict(description, item);
    if (!first(description, refuses_decode)) expect_cover(description, file.size());
  }
}

}  // namespace
}  // namespace tzmark::conformance::model
