// Damage of every sort to a small file: flipped bits, truncation, lies in its numbers, failing I/O.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "testing/faults/faulty_file.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"
#include "tzmark/canonical.h"

namespace tzmark {
namespace {

using test::error_of;

struct Variant {
  const char* name;
  Layout layout;
  bool encrypted;
};

class DamageTest : public ::testing::TestWithParam<Variant> {
 protected:
  DamageTest() {
    WriteOptions options;
    options.layout = GetParam().layout;
    if (GetParam().encrypted) options.encrypt = test::with_key(1024);
    bytes_ = test::three_tensors().write(options);
  }

  ReadOptions read_options() const { return GetParam().encrypted ? test::key_options() : ReadOptions{}; }
  std::optional<ErrorCode> verify(std::vector<std::byte> bytes) const {
    ReadOptions options = read_options();
    options.threads = 1;  // starting threads for each of thousands of tiny files is most of the time otherwise
    return error_of([&] { test::open_bytes(std::move(bytes), std::move(options)).verify(); });
  }

  // Bytes that no hash and no rule covers; FORMAT.md lists them.
  std::set<std::size_t> uncovered_bytes() const {
    std::set<std::size_t> bytes;
    const auto insert = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) bytes.insert(i);
    };
    const Layout layout = GetParam().layout;
    insert(layout < Layout::kV4 ? offsetof(FileHeaderWire, feature_flags) : offsetof(FileHeaderWire, total_data_bytes),
           offsetof(FileHeaderWire, tensor_count));
    if (headers_first(layout)) {
      // Where segments end may be said otherwise; gaps and the terminator belong to no tensor.
      if (layout == Layout::kV5Segments) {
        insert(kLayoutSectionBegin + offsetof(LayoutSectionWire, metadata_end),
               kLayoutSectionBegin + offsetof(LayoutSectionWire, headers_tag));
        insert(kLayoutSectionBegin + offsetof(LayoutSectionWire, headers_end),
               kLayoutSectionBegin + offsetof(LayoutSectionWire, data_tag));
      }
      std::set<std::size_t> used;
      const Reader reader = test::open_bytes(bytes_);
      for (std::size_t i = 0; i < reader.index_begin() + reader.index_length(); ++i) used.insert(i);
      reader.check_headers([&](std::size_t t, const TensorHeader& header, std::span<const std::byte>) {
        const TensorInfo info = reader.tensors()[t];
        for (std::size_t i = 0; i < header.header_length; ++i) used.insert(info.header_offset + i);
        for (std::size_t i = 0; i < info.data_length; ++i) used.insert(info.data_offset + i);
      });
      for (std::size_t i = 0; i < bytes_.size(); ++i) {
        if (!used.contains(i)) bytes.insert(i);
      }
    }
    if (has_entry_versions(layout)) {
      // The version of an entry says only how wide dimensions are, and 'b' has none.
      const Reader reader = test::open_bytes(bytes_);
      bytes.insert(reader.index_begin() + index_entry_bytes(layout, reader.tensors()[0].fields()));
    }
    if (GetParam().encrypted) {
      // A chunk_size larger than the tensor says nothing as long as one MAC covers it all.
      const Reader reader = test::open_bytes(bytes_);
      reader.check_headers([&](std::size_t i, const TensorHeader& header, std::span<const std::byte>) {
        constexpr std::size_t kChunkSizeAt = 8 + 2 + 8 + 2;  // behind crypt_length, chunk count, chunk length and type
        for (std::size_t k = 0; k < 8; ++k) {
          bytes.insert(reader.tensors()[i].header_offset + header.crypt_begin + kChunkSizeAt + k);
        }
      });
    }
    return bytes;
  }

  // The one bit of another byte that may change: it makes another layout of the same bytes.
  std::optional<std::pair<std::size_t, int>> uncovered_bit() const {
    const Layout layout = GetParam().layout;
    // One flag tells the two apart.
    if (has_entry_versions(layout)) return {{offsetof(FileHeaderWire, feature_flags), 1}};
    // Layout v4 is read under data version 5 as well, and version 1 is two bits away from 4.
    if (layout == Layout::kV1) return {{offsetof(FileHeaderWire, data_version), 2}};
    if (layout == Layout::kV4) return {{offsetof(FileHeaderWire, data_version), 0}};
    return std::nullopt;
  }

  std::vector<std::byte> bytes_;
};

TEST_P(DamageTest, EveryFlippedBitIsFound) {
  ASSERT_EQ(verify(bytes_), std::nullopt);
  const std::set<std::size_t> uncovered = uncovered_bytes();
  const auto uncovered_bit = this->uncovered_bit();
  std::set<std::size_t> missed;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    // Of bytes that may change, and gaps are thousands of them, one bit is as good as eight.
    for (int bit = 0; bit < (uncovered.contains(i) ? 1 : 8); ++bit) {
      auto damaged = bytes_;
      damaged[i] ^= std::byte{1} << bit;
      const bool found = verify(damaged).has_value();
      if (uncovered_bit == std::pair(i, bit)) {
        EXPECT_FALSE(found) << "the list in FORMAT.md would be needless";
      } else if (!found) {
        missed.insert(i);
      }
    }
  }
  std::vector<std::size_t> surprising;
  std::ranges::set_difference(missed, uncovered, std::back_inserter(surprising));
  EXPECT_THAT(surprising, ::testing::IsEmpty()) << "verify did not notice these bytes";
  EXPECT_FALSE(missed.empty()) << "the list in FORMAT.md would be needless";
}

TEST_P(DamageTest, EveryTruncationIsRefusedWithoutVerifying) {
  // In the headers-first layouts the terminator may be missing.
  const std::size_t needed = bytes_.size() - (headers_first(GetParam().layout) ? kTerminatorBytes : 0);
  EXPECT_EQ(verify({bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(needed)}), std::nullopt);
  for (std::size_t length = 0; length < needed; ++length) {
    const std::vector<std::byte> cut(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(length));
    const auto code = error_of([&] { canonical_json(test::open_bytes(cut, read_options())); });
    ASSERT_TRUE(code.has_value()) << length;
    EXPECT_EQ(error_info(*code).error_class, ErrorClass::kFile) << length;
  }
}

TEST_P(DamageTest, RandomBytesInPlaceOfFieldsNeverCrash) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20000; ++round) {
    auto damaged = bytes_;
    for (int k = 0; k < 3; ++k) {
      const std::size_t at = random() % damaged.size();
      const std::size_t length = std::min<std::size_t>(std::size_t{1} << (random() % 4), damaged.size() - at);
      const std::uint64_t value = random() % 3 == 0 ? ~std::uint64_t{0} : random();
      std::memcpy(damaged.data() + at, &value, length);
    }
    try {
      ReadOptions options = read_options();
      options.threads = 1;
      test::open_bytes(std::move(damaged), std::move(options)).verify();
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::kFile) << error.what();
    }
  }
}

TEST_P(DamageTest, EveryFailingReadIsOneError) {
  std::uint64_t calls = 0;
  {
    MemoryFile file(bytes_);
    auto counting = std::make_unique<FaultyFile>(file, FaultyFile::Fault::kNone, 0);
    FaultyFile& counter = *counting;
    const Reader reader(std::move(counting), read_options());
    reader.verify();
    calls = counter.calls();
  }
  ASSERT_GT(calls, 3U);
  for (std::uint64_t call = 0; call < calls; ++call) {
    const auto code_with = [&](FaultyFile::Fault fault) {
      MemoryFile file(bytes_);
      return error_of([&] { Reader(std::make_unique<FaultyFile>(file, fault, call), read_options()).verify(); });
    };
    EXPECT_EQ(code_with(FaultyFile::Fault::kError), ErrorCode::kReadFailed) << call;
    EXPECT_EQ(code_with(FaultyFile::Fault::kEnd), ErrorCode::kFileChanged) << call;
    EXPECT_EQ(code_with(FaultyFile::Fault::kShort), std::nullopt) << call;
  }
}

TEST_P(DamageTest, EveryFailingWriteIsOneError) {
  WriteOptions options;
  options.layout = GetParam().layout;
  if (GetParam().encrypted) options.encrypt = test::with_key(1024);
  const test::Content content = test::three_tensors();
  MemoryFile whole;
  FaultyFile counter(whole, FaultyFile::Fault::kNone, 0);
  write_tensors(counter, content.table, content.source(), options);
  ASSERT_GT(counter.calls(), 2U);
  for (std::uint64_t call = 0; call < counter.calls(); ++call) {
    const auto code_with = [&](FaultyFile::Fault fault) {
      MemoryFile file;
      FaultyFile faulty(file, fault, call);
      return error_of([&] { write_tensors(faulty, content.table, content.source(), options); });
    };
    EXPECT_EQ(code_with(FaultyFile::Fault::kNoSpace), ErrorCode::kWriteFailed) << call;
    EXPECT_EQ(code_with(FaultyFile::Fault::kShort), std::nullopt) << call;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, DamageTest,
                         ::testing::Values(Variant{"v1", Layout::kV1, false}, Variant{"v2", Layout::kV2, false},
                                           Variant{"v3", Layout::kV3, true}, Variant{"v4", Layout::kV4, false},
                                           Variant{"v4_encrypted", Layout::kV4, true},
                                           Variant{"v5_headers_first", Layout::kV5HeadersFirst, false},
                                           Variant{"v5_headers_first_encrypted", Layout::kV5HeadersFirst, true},
                                           Variant{"v5_segments", Layout::kV5Segments, false},
                                           Variant{"v5_segments_encrypted", Layout::kV5Segments, true},
                                           Variant{"v5_long_dims", Layout::kV5LongDims, false},
                                           Variant{"v5_long_dims_encrypted", Layout::kV5LongDims, true},
                                           Variant{"v5_flagged_dims", Layout::kV5FlaggedDims, false},
                                           Variant{"v5_flagged_dims_encrypted", Layout::kV5FlaggedDims, true}),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

// Threads read these headers themselves, in any order, when they come to a part.
TEST(DamagedHeaderTest, TheFirstOfSeveralIsTheErrorOfALoad) {
  test::Content content;
  for (const char* name : {"a", "b", "c", "d"}) content.add({name}, "uint8", {5'000'000});
  std::vector<std::byte> bytes = content.write();
  const auto whole = test::open_bytes(bytes);
  for (const char* name : {"b", "c", "d"}) {
    bytes[whole.tensors()[*whole.find(name)].header_offset] ^= std::byte{1};  // its length
  }
  const auto message_of = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string expected = message_of([&] { test::open_bytes(bytes).check_headers({}); });
  const std::uint64_t first = whole.tensors()[*whole.find("b")].header_offset;
  EXPECT_THAT(expected, ::testing::StartsWith("error TZR-REC-002 at byte " + std::to_string(first) + ":"));
  for (const unsigned threads : {1U, 4U}) {
    for (const Verification verify : {Verification::kNone, Verification::kCrc32, Verification::kAll}) {
      ReadOptions options;
      options.threads = threads;
      const Reader reader = test::open_bytes(bytes, std::move(options));
      EXPECT_EQ(message_of([&] { static_cast<void>(reader.load(verify)); }), expected) << threads;
    }
  }
}

}  // namespace
}  // namespace tzmark
