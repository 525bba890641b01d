// Benchmark data: every file is another one, and each cache state has a file of its own.
#include "subjects/content.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kContentBytes = 1 << 20;

std::shared_ptr<const TensorContent> some_content() {
  return std::make_shared<TensorContent>(make_workload("mixed", kContentBytes));
}

// Returns how many aligned blocks of 4 KiB the files have in common, each with itself included.
std::size_t equal_blocks(const std::vector<std::string>& files) {
  std::multiset<std::string> blocks;
  std::size_t equal = 0;
  for (const std::string& name : files) {
    const auto bytes = test::read_whole(name);
    for (std::size_t at = 0; at + 4096 <= bytes.size(); at += 4096) {
      std::string block(reinterpret_cast<const char*>(bytes.data() + at), 4096);
      if (block.find_first_not_of('\0') == std::string::npos) continue;
      if (blocks.contains(block)) ++equal;
      blocks.insert(std::move(block));
    }
  }
  return equal;
}

TEST(Content, NoTwoFilesShareABlock) {
  const test::TestDirectory directory;
  Workplace place(directory.name());
  const auto content = some_content();
  std::vector<std::string> files = {place.raw_file(content, Cache::kWarm), place.raw_file(content, Cache::kDirect),
                                    place.raw_file(some_content(), Cache::kWarm),
                                    place.file(content, {}, Cache::kWarm)};
  EXPECT_EQ(equal_blocks(files), 0u);
  // The measure itself finds equal blocks.
  files.push_back(files.front());
  EXPECT_EQ(equal_blocks(files), kContentBytes / 4096);
}

TEST(Content, EachCacheStateHasItsFile) {
  const test::TestDirectory directory;
  Workplace place(directory.name());
  const auto content = some_content();
  const std::set<std::string> names = {
      place.file(content, {}, Cache::kWarm),   place.file(content, {}, Cache::kCold),
      place.file(content, {}, Cache::kDirect), place.raw_file(content, Cache::kWarm),
      place.raw_file(content, Cache::kCold),   place.raw_file(content, Cache::kDirect)};
  EXPECT_EQ(names.size(), 6u);
  EXPECT_EQ(place.file(content, {}, Cache::kWarm), place.file(content, {}, Cache::kWarm));
}

TEST(Content, IsThatOfTheFileAskedForLast) {
  const test::TestDirectory directory;
  Workplace place(directory.name());
  const auto content = some_content();
  const std::string first = place.file(content, {}, Cache::kWarm);
  const std::string second = place.file(content, {}, Cache::kDirect);
  require_same_content(second, *content, false);
  EXPECT_THROW(require_same_content(first, *content, false), Error);
  place.file(content, {}, Cache::kWarm);
  require_same_content(first, *content, false);
  // A version that was already used is never made anew.
  const std::uint64_t version = content->make_new_version();
  EXPECT_GT(version, content->make_version(1));
  EXPECT_GT(content->make_new_version(), version);
}

}  // namespace
}  // namespace tzmark::bench
