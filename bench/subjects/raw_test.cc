// Raw transfers between the places that the codec uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "subjects/ours.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kBlockBytes = 64 << 10;
constexpr FileFormat kUnhashed{.crc32 = false, .sha256 = false};

class RawAsCodec : public testing::Test {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(place_.directory())) names.push_back(entry.path());
    return names;
  }

  test::TestDirectory directory_;
  Workplace place_{directory_.name()};
  // Tensors of many sizes, some of them empty, most of them not at multiples of 64 bytes.
  SharedContent content_ = std::make_shared<TensorContent>(make_workload("mixed", 4 << 20));
  IoSettings moving_{.io = "pwrite", .block_bytes = kBlockBytes};
};

TEST_F(RawAsCodec, ReadsEveryTensorFromItsPlaceInTheFile) {
  const auto raw = raw_read(place_, content_, moving_, Target::kHugePages, Cache::kWarm, FileFormat());
  raw->verify();
  EXPECT_EQ(raw->description().bytes, content_->data_bytes());
  EXPECT_EQ(raw->description().detail, "as-codec");
  EXPECT_GT(raw->run().elapsed_ns, 0U);
}

TEST_F(RawAsCodec, ChangedDataIsFound) {
  const std::string name = place_.file(content_, FileFormat(), Cache::kWarm);
  const auto raw = raw_read(place_, content_, moving_, Target::kHugePages, Cache::kWarm, FileFormat());
  raw->verify();
  const Reader reader = Reader::open(name, {});
  std::size_t largest = 0;
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    if (reader.tensors()[i].data_length > reader.tensors()[largest].data_length) largest = i;
  }
  std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
  const auto last =
      static_cast<std::streamoff>(reader.tensors()[largest].data_offset + reader.tensors()[largest].data_length - 1);
  file.seekg(last);
  const auto flipped = static_cast<char>(file.get() ^ 1);
  file.seekp(last);
  file.put(flipped);
  file.close();
  EXPECT_THROW(raw->verify(), Error);
}

TEST_F(RawAsCodec, WritesEveryTensorToItsPlaceInTheFile) {
  const auto raw = raw_write(place_, content_, moving_, kUnhashed);
  raw->verify();
  EXPECT_TRUE(files().empty());
  static_cast<void>(raw->run());
  ASSERT_EQ(files().size(), 1U);
  std::ifstream written(files().front(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(written), {}};
  const std::string name = place_.new_name(".tensors");
  write_file(name, content_->table(), content_->source(), write_options(kUnhashed));
  const Reader reader = Reader::open(name, {});
  for (std::size_t i = 0; i < content_->table().size(); ++i) {
    const TensorInfo tensor = reader.tensors()[reader.find(content_->workload().tensors[i].name).value()];
    ASSERT_LE(tensor.data_offset + tensor.data_length, bytes.size());
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(bytes).subspan(tensor.data_offset, tensor.data_length)),
                                   (*content_)[i]));
  }
}

}  // namespace
}  // namespace tzmark::bench
