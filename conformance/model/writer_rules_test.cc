// What binds writers only is found where it is broken, and nowhere in what released writers wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "model/corpus_files.h"

namespace tzmark::conformance::model {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ResultOf;

std::vector<Defect> writer_defects(const CorpusCase& item) {
  std::vector<Defect> defects = describe(bytes_of(item.file), item.secret).defects;
  std::erase_if(defects, [](const Defect& defect) { return defect.kind != Defect::Kind::kWriter; });
  return defects;
}

std::map<std::string, CorpusCase> cases_by_id() {
  std::map<std::string, CorpusCase> cases;
  for (CorpusCase& item : corpus_cases()) cases.emplace(item.id, std::move(item));
  return cases;
}

TEST(WriterRules, EachIsFound) {
  const std::map<std::string, CorpusCase> cases = cases_by_id();
  struct Broken {
    const char* id;
    const char* rule;
    const char* message;
  };
  for (const Broken& broken : {
           Broken{"dtype-bits8-order-little", "TZR-DTY-006", "should be '|V1"},
           Broken{"dtype-uint8-big", "TZR-DTY-006", "should be '|u1'"},
           Broken{"dtype-uint8-little", "TZR-DTY-006", "should be '|u1'"},
           Broken{"detection-first-name-nul", "TZR-IDX-017", "multiple of 4096"},
           Broken{"detection-headers-first-by-header-kind", "TZR-IDX-016", "gap"},
           Broken{"detection-v4-as-5-exact", "TZR-HDR-006",
                  "the layout is v4, and the content needs v1; right only if it was asked for"},
           Broken{"encryption-both-ciphers", "TZR-CRY-020", "a nonce serves a second time"},
           Broken{"encryption-both-hashes", "TZR-HSH-007", "CRC32 of encrypted data"},
           Broken{"encryption-sequential", "TZR-CRY-021", "parallel cipher"},
           Broken{"flagged-dims-scalar", "TZR-IDX-018", "entry_version is 5 and should be 1"},
           Broken{"headers-first-meta-at-end", "TZR-IDX-019", "has no data"},
           Broken{"headers-first-meta-at-in-other-data", "TZR-IDX-019", "has no data"},
           Broken{"headers-first-zero-elements-at-start", "TZR-IDX-019", "has no data"},
           Broken{"segments-meta-at-in-other-data", "TZR-IDX-019", "at a multiple of 8"},
           Broken{"header-flags-all-v1", "TZR-HDR-009", "feature flags"},
           Broken{"header-informative-fields", "TZR-HDR-009", "total data bytes"},
           Broken{"header-informative-fields", "TZR-HDR-009", "unused"},
           Broken{"headers-first-data-reversed", "TZR-IDX-016", "order of the entries"},
           Broken{"index-order-reversed", "TZR-IDX-016", "order of the entries"},
           Broken{"long-dims-meta-2-32", "TZR-HDR-006", "needs v5-flagged-dims"},
           Broken{"long-dims-scalar", "TZR-IDX-018", "entry_version is 5 and should be 1"},
           Broken{"malformed-version-1-opaque", "TZR-HDR-006", "needs v2"},
           Broken{"name-none", "TZR-NAM-009", "empty"},
           Broken{"segments-gap-between-data", "TZR-SEG-005", "multiple of 8"},
           Broken{"segments-header-room", "TZR-SEG-005", "multiple of 4096"},
           Broken{"segments-kinds", "TZR-HDR-006", "needs v1; right only if it was asked for"},
           Broken{"segments-terminator-missing", "TZR-TRM-001", ""},
           Broken{"segments-terminator-nonzero", "TZR-TRM-002", ""},
           Broken{"structured-spelling-one-string", "TZR-NAM-010", ""},
           Broken{"structured-spelling-spaces", "TZR-NAM-010", ""},
           Broken{"terminator-then-byte", "TZR-IDX-016", "1 bytes follow the terminator"},
       }) {
    SCOPED_TRACE(broken.id);
    EXPECT_THAT(writer_defects(cases.at(broken.id)),
                Contains(AllOf(Field(&Defect::rule, broken.rule), ResultOf(sentence_of, HasSubstr(broken.message)))));
  }
}

TEST(WriterRules, ANonceMayServeAgainUnderAnotherKey) {
  EXPECT_THAT(writer_defects(cases_by_id().at("passphrase-two-salts")),
              Not(Contains(Field(&Defect::rule, "TZR-CRY-020"))));
}

// What released writers do wrong is known: empty names, and once a data version that the content does not need.
TEST(WriterRules, ReleasedWritersKeepTheRest) {
  std::size_t count = 0;
  for (const CorpusCase& item : corpus_cases()) {
    const bool released = item.id.starts_with("tensorizer-1.") || item.id.starts_with("tensorizer-2.");
    if (item.verdict != "valid" || !released) continue;
    SCOPED_TRACE(item.id);
    ++count;
    std::vector<Defect> defects = writer_defects(item);
    const bool no_name = item.id.ends_with("name-empty");
    EXPECT_EQ(std::erase_if(defects, [](const Defect& d) { return d.rule == "TZR-NAM-009"; }), no_name ? 1 : 0);
    const bool too_high = item.id.ends_with("meta-zero-element");
    EXPECT_EQ(std::erase_if(defects, [](const Defect& d) { return d.rule == "TZR-HDR-006"; }), too_high ? 1 : 0);
    EXPECT_THAT(defects, IsEmpty()) << sentence_of(defects[0]);
  }
  EXPECT_GT(count, 20);
}

// The branches that write the headers-first layouts give a tensor without data the offset of what comes next.
TEST(WriterRules, TheBranchesPlaceEmptyTensorsWhereTheirDataWouldBegin) {
  std::size_t empty = 0;
  for (const CorpusCase& item : corpus_cases()) {
    const bool branch =
        item.id.starts_with("tensorizer-v3.0.0-dev-") || item.id.starts_with("tensorizer-relative-offsets-");
    if (item.verdict != "valid" || !branch) continue;
    SCOPED_TRACE(item.id);
    for (const Defect& defect : writer_defects(item)) EXPECT_NE(defect.rule, "TZR-IDX-019") << sentence_of(defect);
    const Json document = describe(bytes_of(item.file), item.secret).document;
    empty += static_cast<std::size_t>(std::ranges::count_if(
        document.at("tensors"), [](const Json& tensor) { return tensor.at("data_length") == 0; }));
  }
  EXPECT_GE(empty, 6);
}

}  // namespace
}  // namespace tzmark::conformance::model
