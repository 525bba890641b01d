// What the writer writes: round trips, the exact bytes, what it refuses, and what is left when it fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "safetensors/dtypes.h"
#include "testing/caught.h"
#include "testing/faults/faulty_file.h"
#include "testing/files/memory_file.h"
#include "testing/files/safetensors_models.h"
#include "testing/files/test_directory.h"

namespace tzmark {
namespace {

using test::all_dtypes;
using test::Content;
using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

SafetensorsWriteOptions small_pieces(unsigned threads = 3) {
  SafetensorsWriteOptions options;
  options.threads = threads;
  options.piece_bytes = 4096;
  return options;
}

std::vector<std::byte> write(const Content& content, const SafetensorsWriteOptions& options = small_pieces()) {
  MemoryFile file;
  const std::uint64_t bytes = write_safetensors(file, content.table, content.source(), options);
  EXPECT_EQ(bytes, file.size());
  return file.content();
}

std::string text_of(const std::vector<std::byte>& bytes) { return std::string(as_text(bytes)); }

void expect_same(const Content& content, const SafetensorsReader& reader) {
  ASSERT_EQ(reader.size(), content.table.size());
  for (std::size_t i = 0; i < content.table.size(); ++i) {
    const TensorInfo want = content.table[i];
    const auto found = reader.find(want.name);
    ASSERT_TRUE(found) << want.name;
    const SafetensorsTensor got = reader[*found];
    EXPECT_EQ(got.torch_dtype, want.dtype.name);
    EXPECT_TRUE(std::ranges::equal(got.shape, want.shape));
    std::vector<std::byte> data(got.data_length());
    reader.read(*found, std::span(data));
    EXPECT_EQ(data, content.data[i]) << want.name;
  }
}

TEST(SafetensorsDtypes, AreThoseOfTensorsFiles) {
  std::size_t shared = 0;
  for (const safetensors::DtypeRow& row : safetensors::dtypes()) {
    EXPECT_EQ(safetensors::dtypes()[*safetensors::find_dtype(row.name)].name, row.name);
    if (row.torch_name.empty()) continue;
    ++shared;
    EXPECT_EQ(safetensors::find_torch_dtype(row.torch_name), safetensors::find_dtype(row.name));
    EXPECT_EQ(dtype_from_name(row.torch_name).item_bytes * 8, row.bits) << row.name;
  }
  EXPECT_EQ(shared, test::kSharedDtypes.size());
  EXPECT_EQ(safetensors::find_dtype("F16x"), std::nullopt);
  EXPECT_EQ(safetensors::find_torch_dtype(""), std::nullopt);
}

TEST(SafetensorsWriter, RoundTripOfEveryDtype) {
  const Content content = all_dtypes();
  for (const unsigned threads : {1U, 4U}) {
    const SafetensorsReader reader = test::open_safetensors(write(content, small_pieces(threads)));
    expect_same(content, reader);
    reader.verify();
  }
}

TEST(SafetensorsWriter, RoundTripOfSizesAroundThePieces) {
  Content content;
  unsigned number = 0;
  for (const std::uint64_t bytes : {0, 1, 4000, 96, 4095, 4096, 4097, 0, 8191, 8192, 8193, 100'000, 3}) {
    content.add({"t" + std::to_string(number++)}, "uint8", {bytes});
  }
  for (const unsigned threads : {1U, 4U}) {
    const auto file = write(content, small_pieces(threads));
    expect_same(content, test::open_safetensors(file));
    // All the way into a .tensors file and back.
    const SafetensorsReader reader = test::open_safetensors(file);
    MemoryFile tensors;
    const TensorTable table = reader.tensor_table();
    write_tensors(tensors, table, reader, {});
    const Reader back = test::open_bytes(tensors.content());
    MemoryFile again;
    write_safetensors(again, back.tensors(), back, small_pieces(threads));
    EXPECT_EQ(again.content(), file);
  }
}

// The bytes that the reference library writes for these tensors.
TEST(SafetensorsWriter, WritesTheBytesOfTheReferenceLibrary) {
  Content content;
  content.add({"b"}, "uint8", {2});
  content.add({"a"}, "uint8", {});
  content.add({"w\"\\\n\x01/ä"}, "float32", {1, 2});
  SafetensorsWriteOptions options = small_pieces();
  options.metadata = {{"format", "pt"}, {"a", "\t"}};
  const auto file = write(content, options);
  const std::string header = R"({"__metadata__":{"a":"\t","format":"pt"},)"
                             R"("w\"\\\n\u0001/ä":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"U8","shape":[],"data_offsets":[8,9]},)"
                             R"("b":{"dtype":"U8","shape":[2],"data_offsets":[9,11]}})";
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  ASSERT_NE(padded, header.size()) << "choose tensors whose header needs padding";
  EXPECT_EQ(load<std::uint64_t>(file, 0), padded);
  EXPECT_EQ(text_of(file).substr(8, padded), header + std::string(padded - header.size(), ' '));
  std::vector<std::byte> data = content.data[2];
  data.insert(data.end(), content.data[1].begin(), content.data[1].end());
  data.insert(data.end(), content.data[0].begin(), content.data[0].end());
  EXPECT_EQ(std::vector<std::byte>(file.begin() + static_cast<std::ptrdiff_t>(8 + padded), file.end()), data);
  EXPECT_EQ(test::open_safetensors(file).metadata(), options.metadata);
}

TEST(SafetensorsWriter, NoTensorIsAnEmptyHeader) {
  EXPECT_EQ(text_of(write(Content())), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsWriter, SortsByDtypeLastOneFirstAndThenByName) {
  const SafetensorsReader reader = test::open_safetensors(write(all_dtypes()));
  for (std::size_t i = 1; i < reader.size(); ++i) {
    const int before = *safetensors::find_dtype(reader[i - 1].dtype), here = *safetensors::find_dtype(reader[i].dtype);
    EXPECT_TRUE(before > here || (before == here && reader[i - 1].name < reader[i].name)) << reader[i].name;
  }
}

// Refused before anything is written: not even a temporary file is there.
void expect_refused(const TensorTable& table, const SafetensorsWriteOptions& options, const std::string& reason) {
  const test::TestDirectory room;
  const MemorySource source(std::vector<ConstBuffer>(table.size()));
  for (const std::uint64_t shard_bytes : {0U, 1000U}) {
    SafetensorsWriteOptions sharded = options;
    sharded.shard_bytes_max = shard_bytes;
    // A progress call would mean that data was moved.
    sharded.progress = [](std::uint64_t) { ADD_FAILURE() << "data was written"; };
    try {
      write_safetensors(room / "a.safetensors", table, source, sharded);
      ADD_FAILURE() << "not refused: " << reason;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kStUnwritable) << error.what();
      EXPECT_THAT(error.message(), HasSubstr(reason));
    }
  }
  EXPECT_THAT(room.entries(), ::testing::IsEmpty());
  MemoryFile file;
  EXPECT_EQ(error_of([&] { write_safetensors(file, table, source, options); }), ErrorCode::kStUnwritable);
  EXPECT_EQ(file.size(), 0U);
}

TensorTable table_of(const Path& path, const Dtype& dtype, std::vector<std::uint64_t> shape = {2}, bool meta = false) {
  TensorTable table;
  table.add({"first"}, Kind::kStateDict, dtype_from_name("uint8"), std::array<std::uint64_t, 1>{0});
  table.add(path, Kind::kStateDict, dtype, shape, meta);
  return table;
}

TEST(SafetensorsWriter, RefusesWhatTheFormatLacks) {
  const Dtype u8 = dtype_from_name("uint8");
  expect_refused(table_of({"m"}, u8, {2}, true), {}, "'m' is a meta tensor");
  for (const std::string_view dtype : {"complex128", "complex32", "bits8", "float8_e3m4"}) {
    expect_refused(table_of({"a"}, dtype_from_name(dtype)), {}, "'a' is of dtype " + std::string(dtype));
  }
  expect_refused(table_of({"a"}, parse_dtype("|S5")), {}, "'a' is of dtype |S5");
  expect_refused(table_of({"a"}, parse_dtype(">f4")), {}, "'a' is big-endian");
  expect_refused(table_of({"a", "b"}, u8), {}, "structured name");
  expect_refused(table_of({std::uint64_t{0}}, u8), {}, "structured name");
  expect_refused(table_of({"__metadata__"}, u8), {}, "'__metadata__' has the name");
  expect_refused(table_of({"first"}, u8), {}, "'first' is the name of more than one tensor");
  expect_refused(table_of({"z"}, u8, {~std::uint64_t{0}, 2, 0}), {}, "'z' has a shape");
  SafetensorsWriteOptions options;
  options.metadata = {{"k", "\xff"}};
  expect_refused(table_of({"a"}, u8), options, "not valid UTF-8");
}

TEST(SafetensorsWriter, HeaderMayHaveItsLargestSize) {
  SafetensorsWriteOptions options = small_pieces(1);
  const std::string frame = R"({"__metadata__":{"k":""}})";
  options.metadata = {{"k", std::string(100'000'000 - frame.size(), 'x')}};
  const auto file = write(Content(), options);
  EXPECT_EQ(file.size(), 100'000'008U);
  EXPECT_EQ(test::open_safetensors(file).metadata(), options.metadata);
  options.metadata["k"] += 'x';
  MemoryFile longer;
  EXPECT_EQ(error_of([&] { write_safetensors(longer, TensorTable(), MemorySource({}), options); }),
            ErrorCode::kStUnwritable);
  EXPECT_EQ(longer.size(), 0U);
}

// A one-byte type has no order, and a structured name of one string is as good as a plain one.
TEST(SafetensorsWriter, WritesWhatOnlyLooksUnwritable) {
  TensorTable table;
  IndexEntry entry;
  entry.kind = Kind::kStateDict;
  entry.name = "\x1e[\"one\"]";
  entry.dimension_count = 1;
  entry.dimensions[0] = 2;
  entry.data_length = 2;
  table.add(entry, parse_dtype(">u1"));
  MemoryFile file;
  const std::array<std::byte, 2> data = {std::byte{5}, std::byte{6}};
  write_safetensors(file, table, MemorySource({std::span(data)}));
  const SafetensorsReader reader = test::open_safetensors(file.content());
  EXPECT_EQ(reader[0].name, "one");
  EXPECT_EQ(reader[0].dtype, "U8");
  // The same name in two spellings is one name.
  IndexEntry plain = entry;
  plain.name = "one";
  table.add(plain, parse_dtype("|u1"));
  EXPECT_EQ(error_of([&] {
              write_safetensors(file, table, MemorySource({std::span(data), std::span(data)}));
            }),
            ErrorCode::kStUnwritable);
}

TEST(SafetensorsWriter, RefusesMemoryOfAnotherSize) {
  Content content;
  content.add({"a"}, "float32", {2});
  const std::array<std::byte, 7> memory{};
  MemoryFile file;
  EXPECT_EQ(error_of([&] { write_safetensors(file, content.table, MemorySource({std::span(memory)})); }),
            ErrorCode::kUsage);
}

// Data of a .tensors file is checked against its hashes while it passes by.
TEST(SafetensorsWriter, ChecksTheHashesOfItsSource) {
  Content content;
  content.add({"large"}, "uint8", {20'000});
  content.add({"small"}, "uint8", {5});
  content.add({"none"}, "uint8", {0});
  const auto file = content.write();
  const std::size_t large_at = Reader(std::make_unique<MemoryFile>(file)).tensors()[0].data_offset;
  const std::size_t small_at = Reader(std::make_unique<MemoryFile>(file)).tensors()[1].data_offset;
  const auto copy = [&](std::vector<std::byte> bytes, bool verify) {
    const Reader reader = test::open_bytes(std::move(bytes));
    SafetensorsWriteOptions options = small_pieces();
    options.verify_source = verify;
    MemoryFile out;
    write_safetensors(out, reader.tensors(), reader, options);
  };
  copy(file, true);
  for (const std::size_t at : {large_at, large_at + 19'999, small_at}) {
    auto damaged = file;
    damaged[at] ^= std::byte{1};
    EXPECT_EQ(error_of([&] { copy(damaged, true); }), ErrorCode::kHashCrc32) << at;
    EXPECT_EQ(error_of([&] { copy(damaged, false); }), std::nullopt) << at;
  }
}

TEST(SafetensorsWriter, CopiesEncryptedTensorsAsPlaintext) {
  Content content;
  content.add({"a"}, "float32", {50, 70});
  WriteOptions encrypted;
  encrypted.encrypt = test::with_key(1024);
  const Reader reader = test::open_bytes(content.write(encrypted), test::key_options());
  MemoryFile file;
  write_safetensors(file, reader.tensors(), reader, small_pieces());
  expect_same(content, test::open_safetensors(file.content()));
}

TEST(SafetensorsWriter, FileAppearsWholeOrNotAtAll) {
  const Content content = all_dtypes();
  const test::TestDirectory room;
  const std::string name = room / "a.safetensors";
  const SafetensorsWriteResult result = write_safetensors(name, content.table, content.source());
  EXPECT_THAT(result.file_names, ElementsAre(name));
  EXPECT_EQ(result.file_bytes, std::filesystem::file_size(name));
  expect_same(content, SafetensorsReader::open(name));
  const auto before = test::read_whole(name);

  SafetensorsWriteOptions options;
  options.existing = AtomicFile::Existing::kRefuse;
  EXPECT_EQ(error_of([&] { write_safetensors(name, content.table, content.source(), options); }),
            ErrorCode::kOpenFailed);
  // A source that fails halfway leaves what was there.
  options.existing = AtomicFile::Existing::kReplace;
  std::vector<ConstBuffer> views(content.table.size());
  EXPECT_EQ(error_of([&] { write_safetensors(name, content.table, MemorySource(views), options); }), ErrorCode::kUsage);
  EXPECT_EQ(test::read_whole(name), before);
  EXPECT_THAT(room.entries(), ElementsAre("a.safetensors"));
}

// Writing fails at each call in turn, with an error and with a full disk.
TEST(SafetensorsWriter, PassesOnWhatFailsBelow) {
  Content content;
  content.add({"a"}, "uint8", {9000});
  content.add({"b"}, "uint8", {10});
  const auto run = [&](FaultyFile& file) {
    write_safetensors(file, content.table, content.source(), small_pieces(2));
    file.sync();
  };
  MemoryFile memory;
  FaultyFile whole(memory, FaultyFile::Fault::kNone, 0);
  run(whole);
  ASSERT_GE(whole.calls(), 5U);
  for (std::uint64_t call = 0; call < whole.calls(); ++call) {
    for (const auto fault : {FaultyFile::Fault::kError, FaultyFile::Fault::kNoSpace}) {
      MemoryFile inner;
      FaultyFile failing(inner, fault, call);
      const auto expected = call + 1 == whole.calls() ? ErrorCode::kSyncFailed : ErrorCode::kWriteFailed;
      EXPECT_EQ(error_of([&] { run(failing); }), expected) << call;
    }
  }
  MemoryFile inner;
  FaultyFile slow(inner, FaultyFile::Fault::kShort, 1, true);
  run(slow);
  EXPECT_EQ(inner.content(), memory.content());
}

TEST(SafetensorsWriter, FullDiskLeavesNothing) {
  Content content;
  content.add({"a"}, "uint8", {100'000});
  const test::TestDirectory room;
  {
    const test::FileSizeLimit limit(50'000);
    for (const std::uint64_t shard_bytes : {0U, 10U}) {
      SafetensorsWriteOptions options = small_pieces();
      options.shard_bytes_max = shard_bytes;
      EXPECT_EQ(error_of([&] { write_safetensors(room / "a.safetensors", content.table, content.source(), options); }),
                ErrorCode::kWriteFailed);
    }
  }
  EXPECT_THAT(room.entries(), ::testing::IsEmpty());
}

TEST(SafetensorsWriter, TellsProgressOfEveryByte) {
  const Content content = all_dtypes();
  std::uint64_t data_bytes = 0;
  for (const auto& bytes : content.data) data_bytes += bytes.size();
  std::atomic<std::uint64_t> told = 0;
  SafetensorsWriteOptions options = small_pieces();
  options.progress = [&](std::uint64_t bytes) { told += bytes; };
  write(content, options);
  EXPECT_EQ(told, data_bytes);
}

}  // namespace
}  // namespace tzmark
