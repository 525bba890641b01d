// What one path writes, every path reads: parts, messages and pages that do not line up, plain and encrypted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "testing/files/path_test.h"
#include "testing/files/tensors_files.h"
#include "tzmark/reader.h"

namespace tzmark {
namespace {

// Large tensors and small ones, of lengths around pages, messages and pieces.
test::Content several_sizes() {
  test::Content content;
  unsigned number = 0;
  for (const std::uint64_t bytes : {3, 600'000, 70'001, 0, 8'191, 1, 200'000, 262'144, 65'537, 4'095, 300'003}) {
    content.add({"t", std::uint64_t{number++}}, "uint8", {bytes});
  }
  return content;
}

std::vector<std::string> host_paths() {
  std::vector<std::string> names;
  for (const IoPath& path : io_paths()) {
    if (path.name != "gpudirect" && !path.traits.is_remote) names.emplace_back(path.name);
  }
  return names;
}

class PathsTest : public test::PathTest {
 protected:
  static void expect_same(const test::Content& content, const LoadedTensors& loaded) {
    ASSERT_EQ(loaded.size(), content.data.size());
    for (std::size_t i = 0; i < loaded.size(); ++i) EXPECT_TRUE(std::ranges::equal(loaded[i], content.data[i])) << i;
  }

  // chunk_bytes: of encryption; 0 without.
  void round_trip(std::uint64_t chunk_bytes, std::size_t piece_bytes, Layout layout) {
    const test::Content content = several_sizes();
    const std::string name = new_name();
    WriteOptions writing;
    writing.layout = layout;
    writing.piece_bytes = piece_bytes;
    if (chunk_bytes != 0) writing.encrypt = test::with_key(chunk_bytes);
    writing.io_path = GetParam();
    write_file(name, content.table, content.source(), writing);
    for (const std::string& path : {std::string("pwrite"), GetParam()}) {
      ReadOptions reading = chunk_bytes != 0 ? test::key_options() : ReadOptions();
      reading.piece_bytes = piece_bytes;
      reading.io_path = path;
      expect_same(content, Reader::open(name, std::move(reading)).load());
    }
    std::filesystem::remove(name);
  }
};

INSTANTIATE_TEST_SUITE_P(EveryPath, PathsTest, ::testing::ValuesIn(host_paths()), test::test_name);

TEST_P(PathsTest, PlainFiles) {
  for (const std::size_t piece_bytes : {10'000, 65'536, 2'097'152}) {
    round_trip(0, piece_bytes, Layout::kV4);
  }
  round_trip(0, 65'536, Layout::kV5Segments);
}

TEST_P(PathsTest, EncryptedFilesWhoseMessagesSharePages) {
  for (const std::uint64_t chunk_bytes : {1'024, 5'056, 65'536}) {
    for (const std::size_t piece_bytes : {65'536, 70'000}) {
      round_trip(chunk_bytes, piece_bytes, Layout::kV4);
    }
  }
  // Parts that are shorter than a page, or hardly longer.
  for (const std::uint64_t chunk_bytes : {3'008, 4'160}) {
    round_trip(chunk_bytes, 4'224, Layout::kV4);
  }
  round_trip(65'536, 65'536, Layout::kV5Segments);
}

TEST_P(PathsTest, MemoryThatNeedsNoBounceBuffer) {
  constexpr std::size_t kBytes = 600'001;
  const std::string name = new_name();
  WriteOptions writing;
  writing.piece_bytes = 65'536;
  writing.io_path = GetParam();
  TensorTable table;
  table.add({"t"}, Kind::kStateDict, dtype_from_name("uint8"), std::array<std::uint64_t, 1>{kBytes});
  HostMemory memory(kBytes + 2 * 4096);
  std::mt19937_64 random(1);
  for (std::byte& b : memory.bytes()) b = static_cast<std::byte>(random());
  std::uint64_t in_file = 0;
  // Equal to the offset in the file modulo many powers of two, and modulo none.
  for (const std::size_t below : {0, 4, 64, 512, 520, 1'024, 2'048, 3}) {
    const auto data = memory.bytes().subspan(in_file % 4096 + below, kBytes);
    write_file(name, table, MemorySource({ConstBuffer(data.data(), data.size())}), writing);
    ReadOptions reading;
    reading.io_path = GetParam();
    reading.piece_bytes = 65'536;
    const Reader reader = Reader::open(name, std::move(reading));
    in_file = reader.tensors()[0].data_offset;
    EXPECT_TRUE(std::ranges::equal(reader.load(Verification::kAll)[0], data)) << below;
  }
}

TEST_P(PathsTest, AnEmptyTensorWhoseHeaderFillsAPiece) {
  test::Content content;
  content.add({std::string(5000, 'n')}, "uint8", {0});
  const std::string name = new_name();
  WriteOptions writing;
  writing.piece_bytes = 4096;
  writing.io_path = GetParam();
  write_file(name, content.table, content.source(), writing);
  ReadOptions reading;
  reading.piece_bytes = 4096;
  reading.io_path = GetParam();
  const Reader reader = Reader::open(name, std::move(reading));
  expect_same(content, reader.load());
  // Through a buffer of the pipeline.
  reader.verify();
}

TEST_P(PathsTest, ADamagedMessageIsFoundOnTheWay) {
  const test::Content content = several_sizes();
  const std::string name = new_name();
  WriteOptions writing;
  writing.encrypt = test::with_key(65'536);
  write_file(name, content.table, content.source(), writing);
  ReadOptions reading = test::key_options();
  const std::uint64_t place = Reader::open(name, std::move(reading)).tensors()[1].data_offset + 3 * 65'536 + 7;
  {
    const auto file = open_file(name, OpenMode::kModify);
    std::vector<std::byte> byte = test::read(*file, place, 1);
    byte[0] ^= std::byte{1};
    file->write_at(place, std::span(byte));
  }
  ReadOptions again = test::key_options();
  again.io_path = GetParam();
  const Reader reader = Reader::open(name, std::move(again));
  EXPECT_EQ(test::error_of([&] { reader.load(); }), ErrorCode::kCryptMac);
}

}  // namespace
}  // namespace tzmark
