// What the writer writes, the reader reads: every layout, sizes around every border, several threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"
#include "tzmark/canonical.h"

namespace tzmark {
namespace {

using test::Content;
using test::error_of;

struct Shape {
  std::size_t piece_bytes;
  unsigned threads;
};

void expect_same(const Content& content, const Reader& reader) {
  ASSERT_EQ(reader.tensors().size(), content.table.size());
  reader.verify();
  for (std::size_t i = 0; i < content.table.size(); ++i) {
    const TensorInfo want = content.table[i];
    const TensorInfo got = reader.tensors()[i];
    EXPECT_EQ(got.name, want.name);
    EXPECT_EQ(got.dtype, want.dtype);
    EXPECT_EQ(got.kind, want.kind);
    EXPECT_EQ(got.meta(), want.meta());
    EXPECT_THAT(got.shape, ::testing::ElementsAreArray(want.shape));
    std::vector<std::byte> data(*nominal_bytes(got.shape, got.dtype.item_bytes), std::byte{0xaa});
    reader.read(i, std::span(data));
    EXPECT_EQ(data, want.meta() ? std::vector<std::byte>(data.size()) : content.data[i]) << want.name;
  }
}

// Tensors whose sizes lie around the piece and chunk sizes of the tests.
Content many_sizes(bool meta, bool opaque) {
  Content content;
  unsigned number = 0;
  for (const std::uint64_t bytes :
       {0, 1, 63, 64, 1023, 1024, 1025, 2048, 3900, 4000, 4095, 4096, 4097, 8191, 8192, 8193, 12288, 100000}) {
    content.add({"t", std::uint64_t{number++}}, "uint8", {bytes});
  }
  content.add({"scalar"}, "float64", {});
  if (opaque) content.add({"half"}, "bfloat16", {3, 5});
  if (meta) content.add({"meta"}, "float32", {1000});
  if (meta)
    content.table.add({"huge"}, Kind::kParameter, dtype_from_name("uint8"), std::array<std::uint64_t, 2>{1 << 20, 7},
                      true),
        content.data.emplace_back();
  return content;
}

class RoundTripTest : public ::testing::TestWithParam<Shape> {
 protected:
  WriteOptions write_options() const {
    WriteOptions options;
    options.piece_bytes = GetParam().piece_bytes;
    options.threads = GetParam().threads;
    return options;
  }
  ReadOptions read_options() const {
    ReadOptions options;
    options.piece_bytes = GetParam().piece_bytes;
    options.threads = GetParam().threads;
    return options;
  }
};

TEST_P(RoundTripTest, PlainLayouts) {
  for (const Layout layout : kLayouts) {
    if (layout == Layout::kV3) continue;  // always encrypted
    const Content content = many_sizes(layout >= Layout::kV4, layout != Layout::kV1);
    WriteOptions options = write_options();
    options.layout = layout;
    const Reader reader = test::open_bytes(content.write(options), read_options());
    EXPECT_EQ(reader.layout(), layout);
    expect_same(content, reader);
  }
}

TEST_P(RoundTripTest, EncryptedLayoutsOfEveryChunkSize) {
  for (const Layout layout : kLayouts) {
    if (layout < Layout::kV3) continue;
    for (const std::uint64_t chunk_bytes : {1024, 1088, 4096}) {
      const Content content = many_sizes(layout >= Layout::kV4, true);
      WriteOptions options = write_options();
      options.layout = layout;
      options.encrypt = test::with_key(chunk_bytes);
      ReadOptions read = read_options();
      read.key = key_from_hex(test::kKeyHex);
      expect_same(content, test::open_bytes(content.write(options), std::move(read)));
    }
  }
}

TEST_P(RoundTripTest, MessagesLargerThanAPiece) {
  const Content content = many_sizes(false, true);
  WriteOptions options = write_options();
  options.piece_bytes = 1 << 20;
  options.encrypt = test::with_key(65536);
  const auto bytes = content.write(options);
  ReadOptions read = read_options();
  read.key = key_from_hex(test::kKeyHex);
  const Reader reader = test::open_bytes(bytes, std::move(read));
  expect_same(content, reader);
  // A flipped bit at the message's end is found before its beginning is handed out.
  const std::size_t large = *reader.find(Path{"t", std::uint64_t{17}});
  auto broken = bytes;
  broken[reader.tensors()[large].data_offset + 65535] ^= std::byte{1};
  ReadOptions again = read_options();
  again.key = key_from_hex(test::kKeyHex);
  const Reader broken_reader = test::open_bytes(broken, std::move(again));
  const auto stream = broken_reader.open(large);
  std::vector<std::byte> first(64);
  EXPECT_EQ(error_of([&] { stream->read(0, std::span(first)); }), ErrorCode::kCryptMac);
  EXPECT_EQ(first, std::vector<std::byte>(64)) << "no plaintext is handed out";
}

TEST_P(RoundTripTest, StreamsReadAnyRange) {
  Content content;
  content.add({"x"}, "uint8", {10000});
  for (const std::uint64_t chunk_bytes : {std::uint64_t{0}, std::uint64_t{1024}, std::uint64_t{16384}}) {
    WriteOptions options = write_options();
    options.piece_bytes = 1 << 20;
    if (chunk_bytes != 0) options.encrypt = test::with_key(chunk_bytes);
    ReadOptions read = read_options();
    if (chunk_bytes != 0) read.key = key_from_hex(test::kKeyHex);
    const Reader reader = test::open_bytes(content.write(options), std::move(read));
    const auto stream = reader.open(0);
    std::mt19937 random(7);
    for (int i = 0; i < 200; ++i) {
      const std::size_t begin = random() % 10000;
      const std::size_t length = random() % (10000 - begin + 1);
      std::vector<std::byte> out(length);
      stream->read(begin, std::span(out));
      ASSERT_TRUE(std::equal(out.begin(), out.end(), content.data[0].begin() + static_cast<std::ptrdiff_t>(begin)));
    }
    EXPECT_EQ(error_of([&] {
                std::byte one;
                stream->read(10000, MutableBuffer(&one, 1));
              }),
              ErrorCode::kUsage);
  }
}

TEST_P(RoundTripTest, ConvertingKeepsHashesAndBytes) {
  const Content content = many_sizes(false, false);
  WriteOptions to_v4 = write_options();
  to_v4.layout = Layout::kV4;
  const auto v1 = content.write(write_options());
  const Reader first = test::open_bytes(v1, read_options());
  MemoryFile v4;
  write_tensors(v4, first.tensors(), first, to_v4);
  const Reader second = test::open_bytes(v4.content(), read_options());
  EXPECT_EQ(second.layout(), Layout::kV4);
  MemoryFile back;
  write_tensors(back, second.tensors(), second, write_options());
  // The table of a reader has no module indices; the rest of the files is the same, hashes included.
  const Reader third = test::open_bytes(back.content(), read_options());
  EXPECT_EQ(third.layout(), Layout::kV1);
  expect_same(content, third);
}

INSTANTIATE_TEST_SUITE_P(Pieces, RoundTripTest,
                         ::testing::Values(Shape{4096, 1}, Shape{4096, 3}, Shape{8192, 2}, Shape{2 << 20, 2}),
                         [](const auto& test_info) {
                           return std::to_string(test_info.param.piece_bytes) + "x" +
                                  std::to_string(test_info.param.threads);
                         });

TEST(Writer, TakesTheLowestVersionThatTheContentNeeds) {
  Content content = test::three_tensors();
  EXPECT_EQ(lowest_layout(content.table, false), Layout::kV1);
  EXPECT_EQ(lowest_layout(content.table, true), Layout::kV3);
  content.add({"o"}, "float8_e4m3fn", {2});
  EXPECT_EQ(lowest_layout(content.table, false), Layout::kV2);
  content.add({"m"}, "float32", {2}, true);
  EXPECT_EQ(lowest_layout(content.table, false), Layout::kV4);
  std::string reason;
  EXPECT_EQ(lowest_layout(content.table, true, &reason), Layout::kV4);
  EXPECT_THAT(reason, ::testing::HasSubstr("'m' is a meta tensor"));
  content.add({"l"}, "uint8", {std::uint64_t{1} << 32}, true);
  for (const bool encrypted : {false, true}) {
    reason.clear();
    EXPECT_EQ(lowest_layout(content.table, encrypted, &reason), Layout::kV5FlaggedDims);
    EXPECT_THAT(reason, ::testing::HasSubstr("'l' has a dimension of 2^32"));
    WriteOptions options;
    if (encrypted) options.encrypt = test::with_key(1024);
    const auto bytes = content.write(std::move(options));
    EXPECT_EQ(bytes[offsetof(FileHeaderWire, feature_flags)], std::byte(encrypted ? 3 : 2));
    EXPECT_EQ(test::open_bytes(bytes).layout(), Layout::kV5FlaggedDims);
  }
}

TEST(Writer, RefusesALayoutThatCannotHoldTheContent) {
  Content content = test::three_tensors();
  WriteOptions v3;
  v3.layout = Layout::kV3;
  EXPECT_EQ(error_of([&] { content.write(v3); }), ErrorCode::kHeaderLowestVersion) << "v3 without a key";
  content.add({"m"}, "float32", {2}, true);
  for (const Layout layout : {Layout::kV1, Layout::kV2, Layout::kV3}) {
    WriteOptions options;
    options.layout = layout;
    EXPECT_EQ(error_of([&] { content.write(options); }), ErrorCode::kHeaderLowestVersion);
  }
  content.add({"l"}, "uint8", {0, std::uint64_t{1} << 32});
  for (const Layout layout : {Layout::kV4, Layout::kV5HeadersFirst, Layout::kV5Segments}) {
    WriteOptions options;
    options.layout = layout;
    EXPECT_EQ(error_of([&] { content.write(options); }), ErrorCode::kHeaderLowestVersion);
  }
}

TEST(Writer, RefusesWhatNobodyCouldReadBack) {
  EXPECT_EQ(error_of([] { Content().write(); }), ErrorCode::kHeaderCount);
  EXPECT_EQ(error_of([] { Content().add({""}, "uint8", {1}); }), ErrorCode::kNameUnwritable);
  EXPECT_EQ(error_of([] { Content().add({"\x1e[1]"}, "uint8", {1}); }), ErrorCode::kNameUnwritable);
  EXPECT_EQ(error_of([] { Content().add({"a", "b"}, "uint8", {1}, false, Kind::kParameter); }), ErrorCode::kNameKind);
  EXPECT_EQ(error_of([] {
              Content content;
              content.add({"a"}, "uint8", {1});
              content.add({"a", "b"}, "uint8", {1});
              content.write();
            }),
            ErrorCode::kNamePrefix);
  WriteOptions no_hash;
  no_hash.crc32 = no_hash.sha256 = false;
  EXPECT_EQ(error_of([&] { test::three_tensors().write(no_hash); }), ErrorCode::kUsage);
}

TEST(Writer, SizesTheIndexExactlyOrAsAsked) {
  const Content content = test::three_tensors();
  const Reader exact = test::open_bytes(content.write());
  EXPECT_EQ(exact.index_length(), exact.index_used());
  WriteOptions options;
  options.index_bytes_min = 3 << 20;
  const Reader roomy = test::open_bytes(content.write(options));
  EXPECT_EQ(roomy.index_length(), std::uint64_t{3 << 20});
  EXPECT_EQ(roomy.index_used(), exact.index_used());
}

TEST(Writer, RefusesAnIndexThatNoFileHolds) {
  for (const Layout layout :
       {Layout::kV1, Layout::kV5HeadersFirst, Layout::kV5Segments, Layout::kV5LongDims, Layout::kV5FlaggedDims}) {
    for (const std::uint64_t bytes : {~std::uint64_t{0}, ~std::uint64_t{0} - 100, std::uint64_t{1} << 62}) {
      WriteOptions options;
      options.layout = layout;
      options.index_bytes_min = bytes;
      EXPECT_EQ(error_of([&] { test::three_tensors().write(options); }), ErrorCode::kUsage) << bytes;
    }
  }
}

TEST(Writer, EncryptedTensorsCarrySha256AloneAndMetaTensorsBoth) {
  Content content = test::three_tensors();
  content.add({"m"}, "float32", {2}, true);
  WriteOptions options;
  options.encrypt = test::with_key();
  const Reader reader = test::open_bytes(content.write(options));
  reader.check_headers([&](std::size_t i, const TensorHeader& header, std::span<const std::byte> bytes) {
    EXPECT_EQ(header.crc32(bytes).has_value(), reader.tensors()[i].meta());
    EXPECT_TRUE(header.sha256(bytes).has_value());
    EXPECT_EQ(header.crypt.cipher.has_value(), !reader.tensors()[i].meta());
  });
}

TEST(Writer, NeverUsesANonceTwice) {
  const Content content = many_sizes(false, false);
  std::map<std::array<std::byte, kNonceBytes>, int> seen;
  for (int run = 0; run < 3; ++run) {
    WriteOptions options;
    options.encrypt = test::with_key(1024);
    const Reader reader = test::open_bytes(content.write(options));
    reader.check_headers([&](std::size_t, const TensorHeader& header, std::span<const std::byte>) {
      if (!header.crypt.cipher) return;
      EXPECT_EQ(++seen[header.crypt.cipher->nonce], 1);
    });
  }
  EXPECT_GT(seen.size(), 40U);
}

TEST(Writer, ChecksTheSourceWhileItCopies) {
  const Content content = many_sizes(false, false);
  auto bytes = content.write();
  const Reader whole = test::open_bytes(bytes);
  bytes[whole.tensors()[17].data_offset + 5] ^= std::byte{1};
  const Reader broken = test::open_bytes(bytes);
  for (const bool encrypt : {false, true}) {
    WriteOptions options;
    if (encrypt) options.encrypt = test::with_key();
    MemoryFile out;
    EXPECT_EQ(error_of([&] { write_tensors(out, broken.tensors(), broken, options); }), ErrorCode::kHashCrc32);
    options.verify_source = false;
    MemoryFile unchecked;
    EXPECT_EQ(error_of([&] { write_tensors(unchecked, broken.tensors(), broken, options); }), std::nullopt);
  }
}

// A file that bypasses the page cache, and remembers how long its reads were.
class PagedFile final : public File {
 public:
  explicit PagedFile(std::vector<std::byte> content) : memory_(std::move(content)) {}
  std::string_view io_path() const override { return "paged"; }
  std::uint64_t size() const override { return memory_.size(); }
  std::size_t transfer_align_bytes() const override { return 4096; }
  // The lengths of all reads from that offset on since the last call. REQUIRES: no read is under way.
  std::vector<std::size_t> lengths_from(std::uint64_t offset) {
    std::vector<std::size_t> lengths;
    for (const auto& [begin, length] : std::exchange(reads_, {})) {
      if (begin >= offset) lengths.push_back(length);
    }
    return lengths;
  }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    memory_.read_at(offset, out);
    const std::lock_guard lock(mutex_);
    reads_.emplace_back(offset, out.size);
    return out.size;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer in) override { return in.size; }
  void sync_all() override {}

 private:
  MemoryFile memory_;
  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, std::size_t>> reads_;
};

TEST(Reader, ReadsLargeTensorsInAsFewTransfersAsTheirPartsNeed) {
  constexpr std::size_t kReadBytes = 64 << 10;
  for (const std::size_t more : {0, 1, 2000, 4095, 4096}) {
    Content content;
    content.add({"small"}, "uint8", {10'000});
    content.add({"t"}, "uint8", {4 * kReadBytes + more});
    auto owned = std::make_unique<PagedFile>(content.write());
    PagedFile& file = *owned;
    ReadOptions options;
    options.piece_bytes = kReadBytes;
    const Reader reader(std::move(owned), std::move(options));
    file.lengths_from(0);
    EXPECT_TRUE(std::ranges::equal(reader.load()[1], content.data[1])) << more;
    const TensorInfo tensor = reader.tensors()[1];
    const std::size_t whole = tensor.data_offset % 4096 + tensor.data_length;
    const std::size_t parts = whole / kReadBytes + (whole % kReadBytes < 4096 ? 0 : 1);
    const std::vector<std::size_t> lengths = file.lengths_from(tensor.data_offset);
    EXPECT_EQ(lengths.size(), parts) << more;
    for (const std::size_t length : lengths) EXPECT_GE(length, 4096U) << more;
  }
}

// Forgets the bytes that are written to it, and remembers where.
class RecordedWrites final : public File {
 public:
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  std::string_view io_path() const override { return "recorded"; }
  std::uint64_t size() const override { return size_; }
  // In the order of the file. REQUIRES: no write is under way.
  std::vector<Range> in_order() {
    std::ranges::sort(ranges_, {}, &Range::begin);
    return ranges_;
  }

 protected:
  std::size_t read_some(std::uint64_t, MutableBuffer) override { return 0; }
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    const std::lock_guard lock(mutex_);
    ranges_.push_back({offset, offset + in.size});
    size_ = std::max(size_, offset + in.size);
    return in.size;
  }
  void sync_all() override {}

 private:
  std::mutex mutex_;
  std::vector<Range> ranges_;
  std::uint64_t size_ = 0;
};

// Digests of files are those of what was written, which must not depend on the order of two writes.
TEST(Writer, WritesEachByteOnce) {
  Content content = many_sizes(true, true);
  // Headers that fill more than a piece.
  for (const std::uint64_t bytes : {0, 1, 10'000}) content.add({std::string(5000, 'n'), bytes}, "uint8", {bytes});
  content.add({std::string(5000, 'm')}, "uint8", {5}, true);
  for (const bool encrypted : {false, true}) {
    for (const Layout layout : {Layout::kV4, Layout::kV5Segments}) {
      WriteOptions options;
      options.layout = layout;
      options.piece_bytes = 4096;
      if (encrypted) options.encrypt = test::with_key(1024);
      RecordedWrites file;
      write_tensors(file, content.table, content.source(), options);
      std::uint64_t written_end = 0;
      for (const RecordedWrites::Range& range : file.in_order()) {
        EXPECT_GE(range.begin, written_end) << "encrypted: " << encrypted << ", layout " << layout_name(layout);
        written_end = range.end;
      }
    }
  }
}

// The kernel then allocates the page cache of a write in its largest blocks.
TEST(Writer, DividesLargeTensorsWhereAHugePageOfTheFileEnds) {
  Content content;
  for (const char* name : {"a", "b", "c"}) content.add({name}, "uint8", {9'000'001});
  for (const bool hashes : {false, true}) {
    WriteOptions options;
    options.sha256 = hashes;
    RecordedWrites file;
    write_tensors(file, content.table, content.source(), options);
    auto same = std::make_unique<MemoryFile>();
    write_tensors(*same, content.table, content.source(), options);
    const Reader reader(std::move(same));
    std::size_t inside = 0;
    for (const RecordedWrites::Range& range : file.in_order()) {
      for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
        const TensorInfo tensor = reader.tensors()[i];
        if (range.begin <= tensor.data_offset || range.begin >= tensor.data_offset + tensor.data_length) continue;
        EXPECT_EQ(range.begin % kHugePageBytes, 0U) << "hashes: " << hashes << ", " << range.begin;
        ++inside;
      }
    }
    EXPECT_GE(inside, 3U * 4) << "hashes: " << hashes;
  }
}

TEST(Reader, KeysOfEverySort) {
  Content content = test::three_tensors();
  WriteOptions options;
  options.encrypt = EncryptOptions{Passphrase("correct horse"), kDefaultChunkBytes, 1, 8192};
  const auto sealed = content.write(options);
  const auto open_with = [&](std::optional<KeySource> key) {
    return error_of([&] {
      ReadOptions read;
      read.key = std::move(key);
      test::open_bytes(sealed, std::move(read)).verify();
    });
  };
  EXPECT_EQ(open_with(Passphrase("correct horse")), std::nullopt);
  EXPECT_EQ(open_with(Passphrase("wrong horse")), ErrorCode::kCryptMac);
  EXPECT_EQ(open_with(key_from_hex(test::kKeyHex)), ErrorCode::kCryptMac);
  EXPECT_EQ(open_with(std::nullopt), ErrorCode::kCryptKeyMissing);

  const auto plain = content.write();
  EXPECT_EQ(error_of([&] { test::open_bytes(plain, test::key_options()); }), ErrorCode::kCryptNotEncrypted);
  WriteOptions raw;
  raw.encrypt = test::with_key();
  EXPECT_EQ(error_of([&] {
              ReadOptions read;
              read.key = Passphrase("correct horse");
              test::open_bytes(content.write(raw), std::move(read)).verify();
            }),
            ErrorCode::kCryptNoKdf);
}

TEST(Reader, CapsWhatAFileMayAskOfTheMachine) {
  const Passphrase passphrase("x");
  const KeyDerivationLimits limits;
  EXPECT_EQ(error_of([&] { derive_key(passphrase, {5, 8192, {}}, limits); }), ErrorCode::kCryptKdfLimit);
  EXPECT_EQ(error_of([&] { derive_key(passphrase, {1, (1 << 30) + 1, {}}, limits); }), ErrorCode::kCryptKdfLimit);
  EXPECT_EQ(error_of([&] { derive_key(passphrase, {1, 8191, {}}, limits); }), ErrorCode::kCryptKdfMinimum);
  EXPECT_EQ(error_of([&] { derive_key(passphrase, {0, 8192, {}}, limits); }), ErrorCode::kCryptKdfMinimum);
}

TEST(Reader, FindsTensorsByAnySpellingOfTheirPath) {
  const Reader reader = test::open_bytes(test::three_tensors().write());
  EXPECT_EQ(reader.find(Path{"b"}), 1U);
  EXPECT_EQ(reader.find(Path{"layers", std::uint64_t{0}, "bias"}), 2U);
  EXPECT_EQ(reader.find("a.weight"), 0U);
  EXPECT_EQ(reader.find(Path{"layers"}), std::nullopt);
  EXPECT_EQ(reader.find(Path{"a", "weight"}), std::nullopt) << "a dot in a name is not a path";
}

TEST(Reader, ListsATerabyteOfMetaTensorWithoutMakingRoom) {
  Content content;
  content.table.add({"m"}, Kind::kParameter, dtype_from_name("float64"), std::array<std::uint64_t, 2>{1 << 20, 1 << 20},
                    true);
  content.data.emplace_back();
  const Reader reader = test::open_bytes(content.write());
  EXPECT_TRUE(reader.tensors()[0].meta());
  EXPECT_NO_THROW(reader.verify());
  EXPECT_THAT(canonical_json(reader), ::testing::HasSubstr(R"("sha256":null)"));
}

}  // namespace
}  // namespace tzmark
