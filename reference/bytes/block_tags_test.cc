// Tags of blocks: equal for equal bytes alone, and of no use to another tagger.
#include "bytes/block_tags.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tzmark {
namespace {

TEST(BlockTagger, EqualBytesHaveEqualTagsAndOthersHaveNot) {
  const BlockTagger tagger;
  std::vector<std::byte> block(300);
  const BlockTag tag = tagger.tag(block);
  EXPECT_EQ(tagger.tag(std::vector<std::byte>(300)), tag);
  std::set<BlockTag> tags = {tag, tagger.tag(std::span(block).first(299)), tagger.tag({})};
  for (std::byte& b : block) {
    b = std::byte{1};
    tags.insert(tagger.tag(block));
  }
  EXPECT_EQ(tags.size(), 303U);
}

TEST(BlockTagger, EachHasAKeyOfItsOwn) {
  const std::vector<std::byte> block(100);
  EXPECT_NE(BlockTagger().tag(block), BlockTagger().tag(block));
}

}  // namespace
}  // namespace tzmark
