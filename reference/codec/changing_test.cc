// Encrypted files that change while they are read: what leaves the reader is what was authenticated, or an error.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "bytes/digest.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"

namespace tzmark {
namespace {

using test::ChangingFile;
using test::error_of;

constexpr std::uint64_t kMessageBytes = 1 << 20;
constexpr std::size_t kOddPieceBytes = 300'000;  // of which none ends where a message does
constexpr std::size_t kDataBytes = 2'500'001;

using Bytes = std::vector<std::byte>;
// Gives out the data of tensor 0.
using ReadData = std::function<Bytes(const Reader&)>;

Bytes read_in_steps(const Reader& reader, std::size_t step_bytes) {
  const auto stream = reader.open(0);
  Bytes data(kDataBytes);
  for (std::size_t at = 0; at < data.size(); at += step_bytes) {
    stream->read(at, std::span(data).subspan(at, std::min(step_bytes, data.size() - at)));
  }
  return data;
}

// Every way by which plaintext leaves a reader.
std::map<std::string, ReadData> ways() {
  return {
      {"read",
       [](const Reader& reader) {
         Bytes data(kDataBytes);
         reader.read(0, std::span(data), Verification::kNone);
         return data;
       }},
      {"load",
       [](const Reader& reader) {
         const LoadedTensors loaded = reader.load(Verification::kNone, HostMemory::Pages::kSmall);
         return Bytes(loaded[0].begin(), loaded[0].end());
       }},
      {"convert",
       [](const Reader& reader) {
         MemoryFile copy;
         WriteOptions options;
         options.verify_source = false;
         write_tensors(copy, writable_table(reader), reader, options);
         Bytes data(kDataBytes);
         test::open_bytes(copy.content()).read(0, std::span(data));
         return data;
       }},
      {"one step", [](const Reader& reader) { return read_in_steps(reader, kDataBytes); }},
      {"steps of pieces", [](const Reader& reader) { return read_in_steps(reader, kOddPieceBytes); }},
      {"steps of blocks", [](const Reader& reader) { return read_in_steps(reader, 256 << 10); }},
      {"steps of messages", [](const Reader& reader) { return read_in_steps(reader, kMessageBytes); }},
      {"odd steps", [](const Reader& reader) { return read_in_steps(reader, 77'777); }},
  };
}

class ChangingTest : public ::testing::Test {
 protected:
  ChangingTest() {
    content_.add({"large"}, "uint8", {kDataBytes});
    WriteOptions options;
    options.encrypt = test::with_key(kMessageBytes);
    bytes_ = content_.write(options);
    data_offset_ = test::open_bytes(bytes_).tensors()[0].data_offset;
  }

  static ReadOptions read_options() {
    ReadOptions options = test::key_options();
    options.piece_bytes = kOddPieceBytes;
    options.threads = 2;
    return options;
  }
  Reader changing(std::uint64_t position) const {
    return Reader(std::make_unique<ChangingFile>(bytes_, data_offset_ + position), read_options());
  }

  test::Content content_;
  Bytes bytes_;
  std::uint64_t data_offset_ = 0;
};

TEST_F(ChangingTest, WhatIsGivenOutWasAuthenticated) {
  for (const auto& [name, way] : ways()) {
    ASSERT_EQ(way(test::open_bytes(bytes_, read_options())), content_.data[0]) << name;
    bool noticed = false;
    for (const std::uint64_t position :
         {std::size_t{0}, std::size_t{63}, std::size_t{299'999}, std::size_t{300'000}, (std::size_t{1} << 20) - 1,
          std::size_t{1} << 20, std::size_t{1'500'000}, kDataBytes - 1}) {
      Bytes data;
      const auto error = error_of([&] { data = way(changing(position)); });
      if (error) {
        EXPECT_EQ(*error, ErrorCode::kFileChanged) << name << " at " << position;
        noticed = true;
      } else {
        EXPECT_TRUE(data == content_.data[0]) << name << ": altered plaintext of byte " << position;
      }
    }
    // Reading whole messages into memory that holds them needs no second read.
    EXPECT_EQ(noticed, name != "steps of messages" && name != "one step") << name;
  }
}

TEST_F(ChangingTest, TheDigestOfADumpIsThatOfAuthenticatedData) {
  for (const std::uint64_t position : {std::size_t{0}, std::size_t{1'500'000}, kDataBytes - 1}) {
    std::optional<Sha256Digest> digest;
    const auto error = error_of([&] {
      changing(position).scan({.plain_sha256 = true},
                              [&](const ScannedTensor& tensor) { digest = tensor.plain_sha256; });
    });
    EXPECT_EQ(error, ErrorCode::kFileChanged) << position;
    EXPECT_EQ(digest, std::nullopt);
  }
}

TEST_F(ChangingTest, TheErrorSaysWhereTheBlockIs) {
  const Reader reader = changing(2'400'000);
  Bytes data(100);
  const auto stream = reader.open(0);
  stream->read(0, std::span(data));
  try {
    stream->read(2'400'050, std::span(data));
    ADD_FAILURE() << "a changed block was taken";
  } catch (const Error& error) {
    // Messages begin at multiples of 1 MiB, blocks of them at multiples of 256 KiB.
    EXPECT_EQ(error.code(), ErrorCode::kFileChanged);
    EXPECT_EQ(error.offset(), data_offset_ + (2 << 20) + (256 << 10));
    EXPECT_EQ(data, Bytes(content_.data[0].begin(), content_.data[0].begin() + 100)) << "nothing is given out";
  }
}

TEST_F(ChangingTest, ACleanFileIsReadAtEveryOffset) {
  const Reader reader = test::open_bytes(bytes_, read_options());
  const auto stream = reader.open(0);
  for (const std::size_t begin : {0U, 1U, 64U, 262'143U, 262'144U, 1'048'575U, 1'048'576U, 2'300'000U, 2'500'000U}) {
    for (const std::size_t length : {1U, 64U, 262'143U, 262'144U, 262'145U, 1'100'000U}) {
      Bytes data(std::min(length, kDataBytes - begin));
      stream->read(begin, std::span(data));
      ASSERT_TRUE(std::equal(data.begin(), data.end(), content_.data[0].begin() + static_cast<std::ptrdiff_t>(begin)))
          << begin << " " << length;
    }
  }
}

}  // namespace
}  // namespace tzmark
