// Split pairs: two files that are read together, and never taken for anything else.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "bytes/cursor.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"
#include "testing/files/test_directory.h"
#include "tzmark/canonical.h"

namespace tzmark {
namespace {

using test::error_of;

struct Pair {
  std::vector<std::byte> head, data;
};

Pair write_pair(bool encrypted = false) {
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  options.detached_data = true;
  if (encrypted) options.encrypt = test::with_key(1024);
  test::Content content = test::three_tensors();
  content.add({"large"}, "uint8", {100'000});
  content.add({"none"}, "float32", {0});
  content.add({"meta"}, "float32", {7}, /*meta=*/true);
  MemoryFile head, data;
  const WriteResult result = write_tensors(head, content.table, content.source(), options, &data);
  EXPECT_EQ(result.file_bytes, head.size() + data.size());
  return {head.content(), data.content()};
}

Reader open_pair(const Pair& pair, ReadOptions options = {}) {
  return Reader(std::make_unique<MemoryFile>(pair.head), std::make_unique<MemoryFile>(pair.data), std::move(options));
}

TEST(DetachedData, HoldsTheSameAsOneFile) {
  for (const bool encrypted : {false, true}) {
    const Pair pair = write_pair(encrypted);
    const auto read_options = [&] { return encrypted ? test::key_options() : ReadOptions{}; };
    const Reader reader = open_pair(pair, read_options());
    reader.verify();
    EXPECT_EQ(reader.layout(), Layout::kV5Segments);
    EXPECT_EQ(reader.file_bytes(), pair.head.size() + pair.data.size());
    // As one file again, of which only the hashes of other bytes could differ: there are none.
    WriteOptions options;
    options.layout = Layout::kV5Segments;
    if (encrypted) options.encrypt = test::with_key(1024);
    MemoryFile whole;
    write_tensors(whole, writable_table(reader), reader, options);
    const Reader whole_reader = test::open_bytes(whole.content(), read_options());
    whole_reader.verify();
    EXPECT_EQ(canonical_json(whole_reader), canonical_json(reader));
  }
}

// In one run with others, a tensor is read to its destination, and its offset in the data file may be that of a header
// in the head.
TEST(DetachedData, TensorWhoseOffsetIsThatOfAHeader) {
  test::Content content;
  for (const std::uint64_t bytes : {7, 375'001, 8'701, 100'000}) {
    content.add({"t", std::uint64_t{content.table.size()}}, "uint8", {bytes});
  }
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  options.detached_data = true;
  MemoryFile head, data;
  write_tensors(head, content.table, content.source(), options, &data);
  const Reader reader = open_pair({head.content(), data.content()});
  const LoadedTensors loaded = reader.load();
  for (std::size_t i = 0; i < loaded.size(); ++i) EXPECT_TRUE(std::ranges::equal(loaded[i], content.data[i])) << i;
}

TEST(DetachedData, HeadHasNoDataAndDataFileHasNoNames) {
  const Pair pair = write_pair();
  EXPECT_EQ(pair.head.size() % 4096, 0U);
  EXPECT_LT(pair.head.size(), 3 * 4096U);
  EXPECT_EQ(as_text(std::span(pair.data).first(5)), "|TZD|");
  EXPECT_NE(as_text(pair.head).find("a.weight"), std::string_view::npos);
  EXPECT_EQ(as_text(pair.data).find("a.weight"), std::string_view::npos);
}

TEST(DetachedData, HeadAloneIsRefusedAsAnyReaderDoes) {
  const Pair pair = write_pair();
  EXPECT_EQ(error_of([&] { test::open_bytes(pair.head); }), ErrorCode::kHeaderFlags);
  EXPECT_EQ(error_of([&] { test::open_bytes(pair.data); }), ErrorCode::kHeaderMagic);
  Pair swapped{pair.data, pair.head};
  EXPECT_EQ(error_of([&] { open_pair(swapped); }), ErrorCode::kHeaderMagic);
}

TEST(DetachedData, WholeFileWithADataFileIsWrongUsage) {
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  EXPECT_EQ(error_of([&] { open_pair({test::three_tensors().write(options), write_pair().data}); }), ErrorCode::kUsage);
}

TEST(DetachedData, FilesOfTwoPairsDoNotMix) {
  const Pair one = write_pair(), other = write_pair();
  EXPECT_EQ(error_of([&] { open_pair({one.head, other.data}); }), ErrorCode::kDetachedDataPair);
}

TEST(DetachedData, EveryTruncationOfTheDataFile) {
  const Pair pair = write_pair();
  const std::size_t needed = pair.data.size() - kTerminatorBytes;
  for (std::size_t length = 0; length < needed; length += length < 5000 ? 1 : 997) {
    Pair cut = pair;
    cut.data.resize(length);
    const auto code = error_of([&] { open_pair(cut); });
    EXPECT_EQ(code, length < 4096 ? ErrorCode::kDetachedDataFile : ErrorCode::kIndexDataPastEnd) << length;
  }
}

TEST(DetachedData, HeadNeedsItsLayoutSection) {
  for (const std::size_t at : {65U, 73U, 74U, 75U, 92U, 109U}) {
    Pair pair = write_pair();
    pair.head[at] ^= std::byte{4};
    EXPECT_EQ(error_of([&] { open_pair(pair); }), ErrorCode::kSegmentLayout) << at;
  }
}

TEST(DetachedData, OtherVersionsOfTheDataFile) {
  Pair pair = write_pair();
  pair.data[5] = std::byte{2};
  EXPECT_EQ(error_of([&] { open_pair(pair); }), ErrorCode::kDetachedDataFile);
}

TEST(DetachedData, OnlyOfSegments) {
  for (const Layout layout : kLayouts) {
    if (layout == Layout::kV5Segments || layout == Layout::kV3) continue;
    WriteOptions options;
    options.layout = layout;
    options.detached_data = true;
    MemoryFile head, data;
    const test::Content content = test::three_tensors();
    EXPECT_EQ(error_of([&] { write_tensors(head, content.table, content.source(), options, &data); }),
              ErrorCode::kUsage);
  }
}

TEST(DetachedData, DamagedDataIsFound) {
  Pair pair = write_pair();
  const Reader reader = open_pair(pair);
  pair.data[reader.tensors()[*reader.find(Path{"large"})].data_offset + 77'777] ^= std::byte{1};
  EXPECT_EQ(error_of([&] { open_pair(pair).verify(); }), ErrorCode::kHashCrc32);
}

// A private file stays private when a part of it gets a name that did not exist before.
TEST(DetachedData, IsNoMoreOpenThanTheFileThatThePairReplaces) {
  const test::TestDirectory room;
  const std::string name = room / "model.tensors";
  const test::Content content = test::three_tensors();
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  write_file(name, content.table, content.source(), options);
  ASSERT_EQ(::chmod(name.c_str(), 0600), 0);
  options.detached_data = true;
  write_file(name, content.table, content.source(), options);
  for (const std::string& part : {name, name + ".data"}) {
    EXPECT_EQ(std::filesystem::status(part).permissions(), std::filesystem::perms(0600)) << part;
  }
}

// Without its data, the head would be useless.
TEST(DetachedData, IsNotReplacedByWhatIsMadeOfIt) {
  const test::TestDirectory room;
  const std::string name = room / "model.tensors";
  const test::Content content = test::three_tensors();
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  options.detached_data = true;
  write_file(name, content.table, content.source(), options);
  const auto open = [&] {
    ReadOptions with_data;
    with_data.data_file_name = name + ".data";
    return Reader::open(name, std::move(with_data));
  };
  const Reader reader = open();
  const auto write_to = [&](const std::string& to) { write_file(to, writable_table(reader), reader, options); };
  EXPECT_EQ(error_of([&] { write_to(name + ".data"); }), ErrorCode::kUsage);
  options.detached_data = false;
  EXPECT_EQ(error_of([&] { write_to(name + ".data"); }), ErrorCode::kUsage);
  EXPECT_EQ(room.entries().size(), 2U);
  options.detached_data = true;
  write_to(name);
  open().verify();
}

}  // namespace
}  // namespace tzmark
