// What opening and searching cost where a file is made to be costly: counted work, and memory that is really allocated.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "bytes/cursor.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"

namespace {

// Memory that operator new has given and not taken back, and the most there was.
std::atomic<std::size_t> allocated_bytes = 0;
std::atomic<std::size_t> peak_bytes = 0;

// Neither is inlined, since a compiler that sees one of a pair takes it for a mismatch of new and free.
[[gnu::noinline]] void* allocate(std::size_t size) {
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = allocated_bytes += ::malloc_usable_size(memory);
  for (std::size_t peak = peak_bytes; peak < now && !peak_bytes.compare_exchange_weak(peak, now);) {
  }
  return memory;
}

[[gnu::noinline]] void release(void* memory) noexcept {
  if (memory == nullptr) return;
  allocated_bytes -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }

namespace tzmark {
namespace {

using test::error_of;

// A file of data version 4 whose tensors have these names, no elements, and no more than one dimension.
std::vector<std::byte> file_of(const std::vector<std::string>& names) {
  TensorFields fields;
  fields.kind = Kind::kStateDict;
  fields.dtype = "|u1";
  fields.dimension_count = 1;
  fields.dimensions[0] = 0;
  std::uint64_t index_bytes = 0;
  for (const std::string& name : names) {
    fields.name = name;
    index_bytes += index_entry_bytes(Layout::kV4, fields);
  }
  std::vector<std::byte> bytes;
  ByteWriter writer(bytes);
  writer.bytes(encode_file_header({.data_version = 4, .tensor_count = names.size()}));
  writer.integer(index_bytes);
  std::uint64_t offset = kClassicIndexBegin + index_bytes;
  for (const std::string& name : names) {
    fields.name = name;
    const std::uint64_t data_offset = offset + tensor_header_bytes(fields, {.crc32 = true});
    encode_index_entry(writer, Layout::kV4, fields, offset, data_offset);
    offset = data_offset;
  }
  for (const std::string& name : names) {
    fields.name = name;
    encode_tensor_header(fields, 0, {.crc32 = true}, {}, bytes);
  }
  writer.integer(std::uint64_t{0});
  return bytes;
}

// How many bytes of memory the opening of a file takes at most for each byte of its index.
double memory_factor(const std::vector<std::string>& names) {
  auto file = std::make_unique<MemoryFile>(file_of(names));
  const std::size_t before = allocated_bytes;
  peak_bytes = before;
  const Reader reader(std::move(file));
  EXPECT_EQ(reader.tensors().size(), names.size());
  const double factor = static_cast<double>(peak_bytes - before) / static_cast<double>(reader.index_length());
  return factor;
}

// Structured names of as many elements as fit, which part at the given place from each other.
std::vector<std::string> long_names(std::size_t count, const std::string& element, bool part_early) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string own =
        '"' + std::to_string(100'000 + i) + '"';  // all of one length, so that all part at one place
    std::string name = kStructuredNameMark + std::string("[\"\"");
    if (part_early) name += ',' + own;
    while (name.size() + element.size() + own.size() + 3 < 65535) name += ',' + element;
    if (!part_early) name += ',' + own;
    names.push_back(name + ']');
  }
  return names;
}

TEST(IndexMemory, NamesOfManyElements) {
  // The table keeps the names themselves, which may take twice their room while it grows, and the old third.
  for (const char* element : {"\"\"", "0", "\"a\"", "18446744073709551615"}) {
    EXPECT_LT(memory_factor(long_names(200, element, true)), 5) << element;
    EXPECT_LT(memory_factor(long_names(200, element, false)), 5) << element;
  }
}

TEST(IndexMemory, ManyShortNames) {
  std::vector<std::string> plain, structured;
  for (std::size_t i = 0; i < 200'000; ++i) {
    plain.push_back(std::to_string(i));
    structured.push_back(kStructuredNameMark + ("[" + std::to_string(i / 2) + ',' + std::to_string(i % 2) + ']'));
  }
  EXPECT_LT(memory_factor(plain), 8);
  EXPECT_LT(memory_factor(structured), 10);
}

TEST(FindCost, StructuredNamesAreFoundWithoutGoingThroughAll) {
  // At one look at each name for each path this would take hours.
  constexpr std::size_t kCount = 60'000;
  std::vector<std::string> names;
  std::vector<Path> paths;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    // Every other name is not spelled as a writer would spell it.
    const char* const separator = i % 2 == 0 ? "," : " , ";
    names.push_back(kStructuredNameMark + ("[\"layers\"" + std::string(separator) + std::to_string(i) + "]"));
    paths.push_back({"layers", i});
  }
  const Reader reader = test::open_bytes(file_of(names));
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(reader.find(paths[i]), i);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(reader.find(Path{"layers", i, "x"}), std::nullopt);
}

TEST(FindCost, EverySpellingOfAPathIsFound) {
  const std::string mark(1, kStructuredNameMark);
  const Reader reader = test::open_bytes(file_of({"plain", mark + R"(["w"])", mark + R"([""])", mark + R"([ "z",7 ])",
                                                  mark + R"(["\u0061" , "\ufffd"])", mark + R"(["\u001e[0]"])"}));
  EXPECT_EQ(reader.find(Path{"plain"}), 0U);
  EXPECT_EQ(reader.find(Path{"w"}), 1U);
  EXPECT_EQ(reader.find(Path{""}), 2U);
  EXPECT_EQ(reader.find(Path{"z", std::uint64_t{7}}), 3U);
  EXPECT_EQ(reader.find(Path{"a", "\xef\xbf\xbd"}), 4U);
  EXPECT_EQ(reader.find(Path{"\x1e[0]"}), 5U);
  EXPECT_EQ(reader.find(Path{"a", "\xff"}), std::nullopt) << "no file holds bytes that are not UTF-8";
  EXPECT_EQ(reader.find(Path{}), std::nullopt);
  EXPECT_EQ(reader.find(Path{"z", "7"}), std::nullopt);
}

// A file that is made of holes but for its beginning.
class SparseFile {
 public:
  SparseFile(std::span<const std::byte> beginning, std::uint64_t bytes)
      : name_(std::filesystem::temp_directory_path() / ("tzmark-sparse-" + std::to_string(::getpid()))) {
    const int file = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    is_there_ = file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
                ::pwrite(file, beginning.data(), beginning.size(), 0) == static_cast<ssize_t>(beginning.size());
    ::close(file);
  }
  ~SparseFile() { std::filesystem::remove(name_); }
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;

  bool is_there() const { return is_there_; }
  std::string name() const { return name_; }

 private:
  std::filesystem::path name_;
  bool is_there_ = false;
};

TEST(SparseIndex, ATebibyteOfZerosIsRefusedAtItsFirstEntry) {
  constexpr std::uint64_t kIndexBytes = std::uint64_t{1} << 40;
  for (const std::uint32_t version : {1U, 2U, 4U, 5U}) {
    std::vector<std::byte> bytes;
    ByteWriter writer(bytes);
    writer.bytes(encode_file_header({.data_version = version, .tensor_count = 0xffff'ffff}));
    writer.integer(kIndexBytes);
    const SparseFile file(bytes, kIndexBytes + 4096);
    if (!file.is_there()) GTEST_SKIP() << "the file system of the temporary directory has no files of 1 TiB";
    const std::size_t before = allocated_bytes;
    peak_bytes = before;
    const auto error = error_of([&] { Reader(open_file(file.name(), OpenMode::kRead, "pwrite")); });
    EXPECT_EQ(error, version == 5 ? ErrorCode::kHeaderNoLayout : ErrorCode::kDtypeUnknown) << version;
    EXPECT_LT(peak_bytes - before, std::size_t{8} << 20) << version;
  }
}

}  // namespace
}  // namespace tzmark
