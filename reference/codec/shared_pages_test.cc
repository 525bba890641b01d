// Who writes a page that two parts share.
#include "codec/shared_pages.h"

#include <gtest/gtest.h>

namespace tzmark {
namespace {

using Half = SharedPages::Half;
using Page = std::array<std::byte, kPartAlignBytes>;

// A page of which the half that lies before cut, or behind it, is filled.
Page filled(Half half, std::size_t cut, std::byte value) {
  Page page{};
  const bool lower = half == Half::kLower;
  std::fill(page.begin() + (lower ? 0 : cut), lower ? page.begin() + cut : page.end(), value);
  return page;
}

TEST(SharedPages, WhoeverComesLastWritesBothHalves) {
  constexpr std::size_t kCut = 1'000;
  Page whole = filled(Half::kLower, kCut, std::byte{1});
  std::fill(whole.begin() + kCut, whole.end(), std::byte{2});
  for (const Half first : {Half::kLower, Half::kUpper}) {
    SharedPages pages;
    const Half last = first == Half::kLower ? Half::kUpper : Half::kLower;
    const auto value_of = [](Half half) { return half == Half::kLower ? std::byte{1} : std::byte{2}; };
    Page one = filled(first, kCut, value_of(first));
    Page other = filled(last, kCut, value_of(last));
    EXPECT_FALSE(pages.complete(8 * kPartAlignBytes + kCut, first, one));
    EXPECT_TRUE(pages.complete(8 * kPartAlignBytes + kCut, last, other));
    EXPECT_EQ(other, whole);
  }
}

TEST(SharedPages, BoundariesAreKeptApartAndForgotten) {
  SharedPages pages;
  Page page = filled(Half::kUpper, 5, std::byte{7});
  EXPECT_FALSE(pages.complete(4'101, Half::kUpper, page));
  EXPECT_FALSE(pages.complete(8'197, Half::kUpper, page));
  Page lower = filled(Half::kLower, 5, std::byte{8});
  EXPECT_TRUE(pages.complete(8'197, Half::kLower, lower));
  EXPECT_EQ(lower[5], std::byte{7});
  EXPECT_FALSE(pages.complete(8'197, Half::kLower, lower)) << "the other half is not complete again";
  EXPECT_TRUE(pages.complete(4'101, Half::kLower, lower));
}

}  // namespace
}  // namespace tzmark
