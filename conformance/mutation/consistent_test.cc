// Drafts of the corpus: each file comes back as it was, and what is changed in valid ones stays valid.
#include "mutation/consistent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <random>
#include <string_view>

#include "model/corpus_files.h"

namespace tzmark::conformance::mutation {
namespace {

using model::corpus_cases;
using model::CorpusCase;

// Sanitizers make each file some ten times slower, and look for other things: there, only some of the files, and none
// of the large ones.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStride = 8;
constexpr std::uintmax_t kFileMaxBytes = 1 << 20;
#else
constexpr std::size_t kStride = 1;
constexpr std::uintmax_t kFileMaxBytes = std::numeric_limits<std::uintmax_t>::max();
#endif

// The rules for which a reader that verifies refuses the file.
std::vector<std::string> refusals(const std::vector<std::byte>& file, const model::Secret& secret) {
  std::vector<std::string> rules;
  for (const model::Defect& defect : model::describe(file, secret).defects) {
    if (model::refuses_verify(defect)) rules.push_back(defect.rule);
  }
  return rules;
}

std::vector<CorpusCase> tensors_cases() {
  std::vector<CorpusCase> cases = corpus_cases();
  std::size_t index = 0;
  std::erase_if(cases, [&](const CorpusCase& item) {
    return item.file.extension() != ".tensors" || index++ % kStride != 0 ||
           std::filesystem::file_size(item.file) > kFileMaxBytes;
  });
  return cases;
}

std::vector<CorpusCase> valid_cases() {
  std::vector<CorpusCase> cases = tensors_cases();
  std::erase_if(cases, [](const CorpusCase& item) { return item.verdict != "valid"; });
  return cases;
}

TEST(Draft, GivesEveryFileBack) {
  std::size_t taken = 0;
  for (const CorpusCase& item : tensors_cases()) {
    SCOPED_TRACE(item.id);
    const std::vector<std::byte> file = model::bytes_of(item.file);
    const std::optional<Draft> draft = take_apart(file, item.secret);
    // Where no index can be found there is nothing to take apart.
    EXPECT_TRUE(draft || item.verdict == "malformed");
    if (!draft) continue;
    EXPECT_EQ(put_together(*draft), file);
    ++taken;
  }
  EXPECT_GT(taken, 1000 / kStride);
}

TEST(Draft, OfADamagedFileGivesItBackOrIsNone) {
  std::mt19937 random(7);
  std::size_t taken = 0;
  for (const CorpusCase& item : tensors_cases()) {
    // A damaged key derivation may ask for a second and a GiB each time.
    if (item.secret.passphrase) continue;
    std::vector<std::byte> file = model::bytes_of(item.file);
    if (file.size() < 65 || file.size() > 4096) continue;
    for (int round = 0; round < 10; ++round) {
      file[random() % file.size()] = static_cast<std::byte>(random() % 2 == 0 ? 0xff : random() % 256);
      if (round % 5 == 4) file.resize(file.size() - random() % 16);
      const std::optional<Draft> draft = take_apart(file, item.secret);
      if (!draft) continue;
      ++taken;
      ASSERT_EQ(put_together(*draft), file) << item.id << ", round " << round;
    }
  }
  EXPECT_GT(taken, 5000 / kStride);
}

TEST(Draft, OfAValidFileDeviatesInOffsetsOfNoDataAlone) {
  for (const CorpusCase& item : valid_cases()) {
    SCOPED_TRACE(item.id);
    const std::vector<std::byte> file = model::bytes_of(item.file);
    const std::optional<Draft> draft = take_apart(file, item.secret);
    ASSERT_TRUE(draft);
    for (const DraftTensor& tensor : draft->tensors) {
      for (const auto& [name, deviation] : tensor.deviations) {
        EXPECT_EQ(name, "index entry: data_offset");
        EXPECT_TRUE(tensor.data.bytes.empty());
      }
    }
  }
}

TEST(Draft, StaysValidWithoutOneOfItsTensors) {
  std::size_t tried = 0;
  for (const CorpusCase& item : valid_cases()) {
    SCOPED_TRACE(item.id);
    const std::vector<std::byte> file = model::bytes_of(item.file);
    std::optional<Draft> draft = take_apart(file, item.secret);
    ASSERT_TRUE(draft);
    // The rest of an encrypted file may be one that needs no key, and offsets of no data may lead anywhere.
    if (draft->tensors.size() < 2 || draft->encrypted || item.id.find("-at-") != std::string::npos) continue;
    // List positions need not be complete, so any tensor may go.
    draft->tensors.erase(draft->tensors.begin());
    EXPECT_THAT(refusals(put_together(*draft), item.secret), testing::IsEmpty());
    ++tried;
  }
  EXPECT_GT(tried, 100 / kStride);
}

// Whether hashes and MACs cannot follow an edit: it leads to other data, to another layout or to another key.
bool leads_elsewhere(const Site& site) {
  constexpr std::array kFields = {"data_offset", "data_length", "data_start", "data version",
                                  "opslimit",    "memlimit",    "alg",        "salt"};
  return std::any_of(kFields.begin(), kFields.end(), [&](const char* name) { return site.name.ends_with(name); });
}

bool is_of_sealing(const std::string& rule) {
  return rule == "TZR-HSH-005" || rule == "TZR-HSH-006" || rule == "TZR-CRY-016";
}

TEST(ApplyEdits, MakesHashesAndMacsFollowEveryField) {
  std::size_t consistent = 0;
  for (const CorpusCase& item : valid_cases()) {
    const std::vector<std::byte> file = model::bytes_of(item.file);
    if (file.size() > 4096) continue;
    const std::optional<Draft> draft = take_apart(file, item.secret);
    ASSERT_TRUE(draft);
    std::vector<Site> sites;
    put_together(*draft, &sites);
    for (const Site& site : sites) {
      SCOPED_TRACE(item.id + ", " + site.name);
      const bool sealing = site.name.ends_with(": hash value") || site.name.find(": mac ") != std::string::npos;
      if (site.size == 0 || leads_elsewhere(site)) continue;
      const auto changed = apply_edits(*draft, sites, {{site.offset, {file[site.offset] ^ std::byte{1}}}});
      ASSERT_TRUE(changed);
      const auto rules = refusals(*changed, item.secret);
      EXPECT_EQ(std::any_of(rules.begin(), rules.end(), is_of_sealing), sealing);
      ++consistent;
    }
  }
  EXPECT_GT(consistent, 10000 / kStride);
}

TEST(ApplyEdits, KeepsWhatItIsTold) {
  const std::vector<CorpusCase> cases = corpus_cases();
  const auto plain =
      std::find_if(cases.begin(), cases.end(), [](const auto& c) { return c.id == "malformed-base-v1"; });
  ASSERT_NE(plain, cases.end());
  const std::vector<std::byte> file = model::bytes_of(plain->file);
  const std::optional<Draft> draft = take_apart(file, plain->secret);
  ASSERT_TRUE(draft);
  std::vector<Site> sites;
  put_together(*draft, &sites);
  const auto offset_of = [&](std::string_view name) {
    return std::find_if(sites.begin(), sites.end(), [&](const Site& site) { return site.name == name; })->offset;
  };
  const std::uint64_t entry = offset_of("index entry: name");
  const Edit edit{entry, {std::byte{'Z'}}};
  EXPECT_THAT(refusals(apply_edits(*draft, sites, {edit}).value(), {}), testing::IsEmpty());
  EXPECT_THAT(refusals(apply_edits(*draft, sites, {edit}, {offset_of("tensor header: name")}).value(), {}),
              testing::ElementsAre("TZR-REC-006"));
  EXPECT_FALSE(apply_edits(*draft, sites, {{file.size(), {std::byte{0}}}}));
  EXPECT_FALSE(apply_edits(*draft, sites, {{entry, std::vector<std::byte>(file.size() - entry)}}));
}

}  // namespace
}  // namespace tzmark::conformance::mutation
