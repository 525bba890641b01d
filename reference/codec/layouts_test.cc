// What the layouts have to do with each other: every one converts into every other, and none is taken for
// another.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "testing/files/corpus.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"
#include "tzmark/canonical.h"

namespace tzmark {
namespace {

using nlohmann::json;

// Of a decode, what no conversion may change. Hashes cover other bytes in another layout.
json content_of(const Reader& reader) {
  json tensors = json::parse(canonical_json(reader)).at("tensors");
  for (json& tensor : tensors) {
    tensor.erase("crc32_field");
    tensor.erase("sha256_field");
  }
  return tensors;
}

std::vector<std::byte> convert(const Reader& reader, Layout layout) {
  WriteOptions options;
  options.layout = layout;
  options.threads = 1;
  if (layout == Layout::kV3) options.encrypt = test::with_key();
  MemoryFile file;
  write_tensors(file, writable_table(reader), reader, options);
  return file.content();
}

Reader open_converted(std::vector<std::byte> bytes, Layout layout) {
  ReadOptions options;
  if (layout == Layout::kV3) options.key = key_from_hex(test::kKeyHex);
  options.threads = 1;
  return test::open_bytes(std::move(bytes), std::move(options));
}

// Each valid file of the corpus into each layout, and from there into each other one.
TEST(Layouts, EveryFileSurvivesEveryPairOfConversions) {
  std::map<std::pair<Layout, Layout>, int> converted;
  for (const json& test : test::manifest().at("cases")) {
    if (test.at("verdict") != "valid") continue;
    SCOPED_TRACE(test.at("id").get<std::string>());
    const Reader original = test::open_case(test);
    const auto& tensors = original.tensors();
    std::uint64_t data_bytes = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) data_bytes += tensors[i].data_length;
    // Large ones take long and show nothing that small ones do not.
    if (data_bytes > 100'000 || tensors.size() > 200) continue;
    std::optional<TensorTable> table;
    try {
      table = writable_table(original);
    } catch (const Error& error) {
      EXPECT_EQ(error.rule(), "TZR-NAM-009");
      continue;
    }
    // Names as a writer spells them, so that they stay the same from then on.
    const json expected = content_of(original);
    const Layout lowest = lowest_layout(*table, false);
    for (const Layout first : kLayouts) {
      if (!can_hold(first, lowest)) continue;
      const auto bytes = convert(original, first);
      const Reader reader = open_converted(bytes, first);
      ASSERT_EQ(reader.layout(), first);
      reader.verify();
      ASSERT_EQ(content_of(reader), expected) << layout_name(first);
      for (const Layout second : kLayouts) {
        if (!can_hold(second, lowest)) continue;
        const Reader again = open_converted(convert(reader, second), second);
        ASSERT_EQ(again.layout(), second);
        again.verify();
        ASSERT_EQ(content_of(again), expected) << layout_name(first) << " to " << layout_name(second);
        ++converted[{first, second}];
      }
    }
  }
  for (const Layout first : kLayouts) {
    for (const Layout second : kLayouts) {
      EXPECT_GT((converted[{first, second}]), 80) << layout_name(first) << " to " << layout_name(second);
    }
  }
}

// Random damage to files of data version 5. Whatever is still read without verifying is read as what it was; if the
// damage made another data version of it, the hashes tell.
TEST(Layouts, NoDamageMakesAnotherLayoutUnnoticed) {
  struct Original {
    std::vector<std::byte> bytes;
    Layout layout;
    const json* test;
  };
  std::map<Layout, std::vector<Original>> originals;
  for (const json& test : test::manifest().at("cases")) {
    if (test.at("verdict") != "valid" || !test.at("layout").get<std::string>().starts_with("v5-")) continue;
    const auto file = open_file(test::corpus_directory() + test.at("path").get<std::string>(), OpenMode::kRead);
    if (file->size() > 300'000) continue;
    Original original{std::vector<std::byte>(file->size()), *layout_from_name(test.at("layout").get<std::string>()),
                      &test};
    file->read_at(0, std::span(original.bytes));
    originals[original.layout].push_back(std::move(original));
  }
  ASSERT_EQ(originals.size(), 4U);
  std::mt19937_64 random(5);
  int still_read = 0, other_layout = 0;
  // As many for each layout.
  constexpr int kRounds = 4 * 10'000;
  for (int round = 0; round < kRounds; ++round) {
    const auto& of_layout = std::next(originals.begin(), round % std::ssize(originals))->second;
    const Original& original = of_layout[random() % of_layout.size()];
    auto bytes = original.bytes;
    // Most of the damage goes where layouts differ: the head of the file, and its index.
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int change = 0; change < changes; ++change) {
      const std::size_t reach = random() % 4 == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 200);
      const std::size_t at = 5 + random() % (reach - 5);
      switch (random() % 5) {
        case 0:
          bytes[at] = static_cast<std::byte>(random() % 6);
          break;
        case 1:
          bytes[at] ^= std::byte{1} << static_cast<int>(random() % 8);
          break;
        case 2:
          bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                      bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), at + 1 + random() % 12)));
          break;
        case 3:
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + random() % 12,
                       static_cast<std::byte>(random() % 6));
          break;
        default:
          bytes.resize(at);
      }
      if (bytes.size() < 10) break;
    }
    ReadOptions options = test::read_options(*original.test);
    options.threads = 1;
    SCOPED_TRACE(original.test->at("id").get<std::string>());
    try {
      const Reader reader = test::open_bytes(bytes, std::move(options));
      reader.check_headers();
      ++still_read;
      if (reader.layout() == original.layout) continue;
      ++other_layout;
      // One flag tells two layouts apart. Where verification passes, the same tensors are in both.
      if (has_entry_versions(original.layout) && has_entry_versions(reader.layout())) {
        if (test::error_of([&] { reader.verify(); })) continue;
        EXPECT_EQ(content_of(reader), content_of(test::open_bytes(original.bytes, test::read_options(*original.test))));
        continue;
      }
      EXPECT_LT(reader.layout(), Layout::kV5FlaggedDims) << "read as " << layout_name(reader.layout());
      EXPECT_NE(test::error_of([&] { reader.verify(); }), std::nullopt) << layout_name(reader.layout());
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::kFile) << error.what();
    }
  }
  RecordProperty("still_read", still_read);
  RecordProperty("other_layout", other_layout);
  // Gaps, sums and terminators may change, so that some files are right enough; not most.
  EXPECT_GT(still_read, 100);
  EXPECT_LT(still_read, kRounds / 2);
}

// v5-flagged-dims and v5-long-dims differ in feature flag 1 and in nothing else.
TEST(Layouts, OneFlagTellsTwoApart) {
  std::map<Layout, int> same;
  for (const json& test : test::manifest().at("cases")) {
    const auto layout = layout_from_name(test.at("layout").get<std::string>());
    if (test.at("verdict") != "valid" || !layout || !has_entry_versions(*layout)) continue;
    SCOPED_TRACE(test.at("id").get<std::string>());
    const auto file = open_file(test::corpus_directory() + test.at("path").get<std::string>(), OpenMode::kRead);
    std::vector<std::byte> bytes(file->size());
    file->read_at(0, std::span(bytes));
    const json expected = content_of(test::open_bytes(bytes, test::read_options(test)));
    bytes[offsetof(FileHeaderWire, feature_flags)] ^= std::byte{2};
    try {
      const Reader reader = test::open_bytes(bytes, test::read_options(test));
      EXPECT_NE(reader.layout(), *layout);
      EXPECT_TRUE(has_entry_versions(reader.layout()));
      reader.verify();
      EXPECT_EQ(content_of(reader), expected);
      ++same[*layout];
    } catch (const Error& error) {
      // Without the flag these can be read in two ways.
      EXPECT_EQ(error.code(), ErrorCode::kHeaderTwoLayouts) << error.what();
    }
  }
  EXPECT_GT(same[Layout::kV5FlaggedDims], 30);
  EXPECT_GT(same[Layout::kV5LongDims], 30);
}

}  // namespace
}  // namespace tzmark
