// A machine that cannot derive a key is not taken for a file that is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "model/corpus_files.h"
#include "model/little_memory.h"

namespace tzmark::conformance::model {
namespace {

constexpr std::uint64_t kMemlimitBytes = std::uint64_t{1} << 30;

TEST(Opening, ThrowsWhereMemoryIsTooLittleForAKey) {
  const std::vector<CorpusCase> cases = corpus_cases();
  const auto item =
      std::find_if(cases.begin(), cases.end(), [](const auto& c) { return c.id == "passphrase-minimum"; });
  ASSERT_NE(item, cases.end());
  std::vector<std::byte> file = bytes_of(item->file);
  const Description right = describe(file, item->secret);
  EXPECT_TRUE(right.defects.empty());
  const auto memlimit = std::find_if(right.fields.begin(), right.fields.end(),
                                     [](const Field& field) { return field.name == "memlimit"; });
  ASSERT_NE(memlimit, right.fields.end());
  for (std::uint64_t i = 0; i < memlimit->size; ++i) {
    file[memlimit->offset + i] = static_cast<std::byte>(kMemlimitBytes >> 8 * i & 0xff);
  }
  const LittleMemory little(kMemlimitBytes / 2);
  EXPECT_THROW(describe(file, item->secret), std::runtime_error);
}

}  // namespace
}  // namespace tzmark::conformance::model
