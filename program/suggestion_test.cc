// Tests of suggestions.
#include "program/suggestion.h"

#include <gtest/gtest.h>

namespace tzmark::conformance {
namespace {

TEST(Nearest, NamesTheNearest) {
  EXPECT_EQ(suggestion("exprt", {"list", "check", "export"}), "; did you mean 'export'?");
  EXPECT_EQ(suggestion("TZR-HDR-02", {"TZR-HDR-012", "TZR-HDR-002"}), "; did you mean 'TZR-HDR-012'?");
}

TEST(Nearest, NamesNothingThatIsFar) {
  EXPECT_EQ(suggestion("burn", {"list", "check", "export"}), "");
  EXPECT_EQ(suggestion("list", {}), "");
  EXPECT_EQ(suggestion(std::string(65, 'x'), {std::string(65, 'x')}), "");
}

}  // namespace
}  // namespace tzmark::conformance
