// How writers have to begin a type.
#include "model/dtypes.h"

#include <gtest/gtest.h>

namespace tzmark::conformance::model {
namespace {

using namespace std::string_view_literals;

TEST(Dtypes, WritersBeginTypesOfOneByteWithABar) {
  for (const std::string code : {"b1", "i1", "u1", "S1"}) {
    for (const char mark : {'<', '>', '|'}) {
      SCOPED_TRACE(mark + code);
      const Dtype dtype = dtype_of(mark + code);
      EXPECT_EQ(dtype.broken_rule, "");
      EXPECT_EQ(dtype.writers_prefix, "|" + code);
    }
  }
  EXPECT_EQ(dtype_of("<V1\0torch.bits8"sv).broken_rule, "");
  EXPECT_EQ(dtype_of("<V1\0torch.bits8"sv).writers_prefix, "|V1");
}

TEST(Dtypes, TheMarkOfOthersIsTheirOwn) {
  for (const std::string_view text : {"<u2"sv, ">u2"sv, "<f4"sv, "|S5"sv, "<U1"sv, "<V2\0torch.bfloat16"sv}) {
    EXPECT_EQ(dtype_of(text).broken_rule, "") << text;
    EXPECT_EQ(dtype_of(text).writers_prefix, "") << text;
  }
}

TEST(Dtypes, SizesAndMultipliersHave31Bits) {
  EXPECT_EQ(dtype_of("|S2147483647").item_bytes, 2147483647);
  EXPECT_EQ(dtype_of("<U536870911").item_bytes, 2147483644);
  EXPECT_EQ(dtype_of("<m8[2147483647s]").broken_rule, "");
  for (const std::string_view text : {"|S2147483648", "|S4294967296", "|S18446744073709551616", "<U536870912",
                                      "<U1073741824", "<m8[2147483648s]", "<m8[18446744073709551616s]"}) {
    EXPECT_EQ(dtype_of(text).broken_rule, "TZR-DTY-001") << text;
  }
}

TEST(Dtypes, OpaqueTypesOfSeveralBytesHaveAnOrder) {
  EXPECT_EQ(dtype_of("|V2\0torch.bfloat16"sv).broken_rule, "TZR-DTY-001");
  EXPECT_EQ(dtype_of("|V4\0torch.bfloat16"sv).broken_rule, "TZR-DTY-004");
}

}  // namespace
}  // namespace tzmark::conformance::model
