// The worked example of FORMAT.md is a right file, and says what the document says of it.
#include <gmock/gmock.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>

#include "bytes/cursor.h"
#include "bytes/digest.h"
#include "testing/files/source_file.h"
#include "tzmark/format.h"

namespace tzmark {
namespace {

std::byte parse_hex_byte(const std::string& digits) {
  std::uint8_t value = 0;
  const char* const end = digits.data() + digits.size();
  if (digits.size() != 2 || std::from_chars(digits.data(), end, value, 16).ptr != end) {
    throw std::runtime_error("not a byte: " + digits);
  }
  return static_cast<std::byte>(value);
}

// The bytes of the fenced block behind the mark.
std::vector<std::byte> worked_example() {
  std::istringstream document(test::read_source_file("reference/FORMAT.md"));
  std::string line;
  while (std::getline(document, line) && line != "<!-- worked example: hex -->") {
  }
  if (!std::getline(document, line) || line != "```") throw std::runtime_error("no fenced block behind the mark");
  std::vector<std::byte> bytes;
  while (std::getline(document, line) && line != "```") {
    std::istringstream words(line);
    for (std::string digits; words >> digits;) bytes.push_back(parse_hex_byte(digits));
  }
  return bytes;
}

float load_float(std::span<const std::byte> bytes, std::size_t at) {
  float value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

class WorkedExample : public ::testing::Test {
 protected:
  WorkedExample() {
    index_length_ = load<std::uint64_t>(file_, kFileHeaderBytes);
    ByteReader index(std::span<const std::byte>(file_).subspan(kClassicIndexBegin, index_length_), kClassicIndexBegin,
                     ErrorCode::kIndexEntryPastEnd, "the index");
    decode_index_entry(index, Layout::kV1, entry_);
    index_rest_ = index.remaining();
    header_bytes_ =
        std::span<const std::byte>(file_).subspan(entry_.header_offset, entry_.data_offset - entry_.header_offset);
    decode_tensor_header(header_bytes_, entry_.header_offset, {}, header_);
    append_hashed_header(Layout::kV1, header_bytes_, header_, hashed_);
    const auto data = std::span<const std::byte>(file_).subspan(entry_.data_offset, entry_.data_length);
    hashed_.insert(hashed_.end(), data.begin(), data.end());
  }

  const std::vector<std::byte> file_ = worked_example();
  std::uint64_t index_length_ = 0;
  std::size_t index_rest_ = 0;
  IndexEntry entry_;
  std::span<const std::byte> header_bytes_;
  TensorHeader header_;
  std::vector<std::byte> hashed_;  // header and data, as both hashes cover them
};

TEST_F(WorkedExample, FileHeader) {
  EXPECT_EQ(file_.size(), 200U);
  const FileHeader header = decode_file_header(file_);
  EXPECT_EQ(header.data_version, 1U);
  EXPECT_FALSE(header.encrypted);
  EXPECT_EQ(header.total_data_bytes, 8U);
  EXPECT_EQ(header.tensor_count, 1U);
}

TEST_F(WorkedExample, IndexAndHeaderDescribeTheTensor) {
  EXPECT_EQ(index_rest_, 0U);
  EXPECT_EQ(entry_.name, "w");
  EXPECT_EQ(entry_.kind, Kind::kParameter);
  EXPECT_EQ(entry_.dtype, "<f4");
  EXPECT_THAT(entry_.shape(), ::testing::ElementsAre(2));
  EXPECT_EQ(entry_.data_length, nominal_bytes(entry_.shape(), parse_dtype(entry_.dtype).item_bytes));
  EXPECT_EQ(entry_.header_offset, kClassicIndexBegin + index_length_);
  EXPECT_EQ(header_.header_length, 74U);
  EXPECT_EQ(header_.module_index, 0);
  check_header_agrees(entry_, header_, entry_.header_offset);
}

TEST_F(WorkedExample, DataAndTerminator) {
  EXPECT_EQ(load_float(file_, entry_.data_offset), 1.0F);
  EXPECT_EQ(load_float(file_, entry_.data_offset + 4), -2.0F);
  EXPECT_EQ(load<std::uint64_t>(file_, entry_.data_offset + entry_.data_length), 0U);
  EXPECT_EQ(entry_.data_offset + entry_.data_length + kTerminatorBytes, file_.size());
}

TEST_F(WorkedExample, Hashes) {
  EXPECT_EQ(hashed_.size(), 82U);
  EXPECT_EQ(header_.crc32(header_bytes_), 0x09ab0382U);
  EXPECT_EQ(crc32(0, hashed_), 0x09ab0382U);
  const std::string sha256_hex = "0c128e2f0e87802c8c7ca0053b65aaf83100e10fc94c3236f6f294c89cd11237";
  ASSERT_TRUE(header_.sha256(header_bytes_));
  EXPECT_EQ(to_hex(*header_.sha256(header_bytes_)), sha256_hex);
  EXPECT_EQ(to_hex(sha256(hashed_)), sha256_hex);
}

TEST_F(WorkedExample, EncodersWriteTheSameBytes) {
  FileHeader file_header;
  file_header.total_data_bytes = 8;
  file_header.tensor_count = 1;
  const auto head = encode_file_header(file_header);
  std::vector<std::byte> written(head.begin(), head.end());
  ByteWriter writer(written);
  writer.integer(std::uint64_t{index_entry_bytes(Layout::kV1, entry_)});
  const std::uint64_t header_at = written.size() + index_entry_bytes(Layout::kV1, entry_);
  HeaderPlan plan;
  plan.crc32 = plan.sha256 = true;
  encode_index_entry(writer, Layout::kV1, entry_, header_at, header_at + tensor_header_bytes(entry_, plan));
  const HeaderSlots slots = encode_tensor_header(entry_, 0, plan, std::nullopt, written);
  store(written, header_at + slots.crc32_at, crc32(0, hashed_));
  std::ranges::copy(sha256(hashed_), written.begin() + static_cast<std::ptrdiff_t>(header_at + slots.sha256_at));
  for (const float value : {1.0F, -2.0F}) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    writer.integer(bits);
  }
  writer.integer(std::uint64_t{0});
  EXPECT_EQ(to_hex(written), to_hex(file_));
}

}  // namespace
}  // namespace tzmark
