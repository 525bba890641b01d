// Changing v5-segments files in place: what is added and changed is there, and all else stays as it was, also when a
// call is refused.
#include "tzmark/edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "testing/files/corpus.h"
#include "testing/files/edits.h"
#include "testing/files/memory_file.h"
#include "tzmark/canonical.h"

namespace tzmark {
namespace {

using nlohmann::json;
using test::Bytes;
using test::Content;
using test::EditTest;
using test::error_of;
using test::kLongName;
using test::one;
using test::read_whole;
using test::write_whole;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// All that a file holds of one tensor.
struct Stored {
  std::string name;
  Bytes header, data;

  bool operator==(const Stored&) const = default;
};

std::vector<Stored> stored(const Reader& reader) {
  std::vector<Stored> list(reader.tensors().size());
  reader.check_headers([&](std::size_t i, const TensorHeader&, std::span<const std::byte> header) {
    list[i].header.assign(header.begin(), header.end());
  });
  for (std::size_t i = 0; i < list.size(); ++i) {
    const TensorInfo tensor = reader.tensors()[i];
    list[i].name = tensor.name;
    list[i].data.resize(tensor.data_length);
    if (tensor.data_length > 0) reader.read(i, std::span(list[i].data));
  }
  return list;
}

// --- The files of the corpus -----------------------------------------------------------------------------------------

class CorpusEditTest : public EditTest {
 protected:
  // Calls action for every valid file of v5-segments, with a copy of it in place.
  template <typename Action>
  void on_every_file(Action&& action) {
    int count = 0;
    for (const json& test : test::manifest().at("cases")) {
      if (test.at("verdict") != "valid" || test.at("layout") != "v5-segments") continue;
      SCOPED_TRACE(test.at("id").get<std::string>());
      write_whole(name_, read_whole(test::corpus_directory() + test.at("path").get<std::string>()));
      action(test);
      EXPECT_THAT(directory_.entries(), ElementsAre("file.tensors"));
      ++count;
    }
    EXPECT_GT(count, 50);
  }

  // A path of this name that does not conflict with those of the file.
  Path sibling(const std::string& name) const {
    const Path present = reader().tensors()[0].path();
    if (std::holds_alternative<std::string>(present[0])) return {name};
    return {std::uint64_t{1000}, name};
  }

  static WriteOptions write_options(const json& test) {
    WriteOptions options;
    // How the key is stretched is the file's affair.
    if (auto key = test::read_options(test).key) options.encrypt = EncryptOptions{std::move(*key), 1024, 4, 1 << 30};
    return options;
  }
};

TEST_F(CorpusEditTest, AppendingKeepsWhatIsThere) {
  unsigned grown = 0;
  on_every_file([&](const json& test) {
    const std::vector<Stored> before = stored(reader(test::read_options(test)));
    const Segments old_segments = reader().segments();
    const Bytes old_bytes = bytes();

    append(one(sibling("added"), 3'000), write_options(test));
    // Nothing that lay there was overwritten, whether it belongs to a tensor or not.
    const Bytes new_bytes = bytes();
    ASSERT_GT(new_bytes.size(), old_bytes.size());
    const auto data_moved = static_cast<std::ptrdiff_t>(reader().segments().data_begin - old_segments.data_begin);
    EXPECT_TRUE(std::equal(old_bytes.begin() + static_cast<std::ptrdiff_t>(old_segments.data_begin), old_bytes.end(),
                           new_bytes.begin() + static_cast<std::ptrdiff_t>(old_segments.data_begin) + data_moved));

    if (append(one(sibling(kLongName), 10), write_options(test)).times > 0) ++grown;
    const Reader after = reader(test::read_options(test));
    after.verify();
    std::vector<Stored> list = stored(after);
    ASSERT_EQ(list.size(), before.size() + 2);
    EXPECT_EQ(parse_name(list[before.size()].name), sibling("added"));
    EXPECT_EQ(list[before.size()].data, one({"added"}, 3'000).data[0]);
    EXPECT_EQ(parse_name(list[before.size() + 1].name), sibling(kLongName));
    list.resize(before.size());
    EXPECT_EQ(list, before);
  });
  EXPECT_GT(grown, 50U);
}

TEST_F(CorpusEditTest, RenamingKeepsAllElse) {
  on_every_file([&](const json& test) {
    const Reader opened = reader(test::read_options(test));
    const std::vector<Stored> before = stored(opened);
    const std::size_t chosen = before.size() / 2;
    for (const std::string& name : {std::string("x"), kLongName, std::string("y")}) {
      EditOptions options;
      options.key = test::read_options(test).key;
      const Path new_path = sibling(name);
      edit({{.tensor = reader().tensors()[chosen].path(), .new_path = new_path}}, std::move(options));
      const Reader after = reader(test::read_options(test));
      after.verify();
      const std::vector<Stored> list = stored(after);
      ASSERT_EQ(list.size(), before.size());
      for (std::size_t i = 0; i < list.size(); ++i) {
        EXPECT_EQ(list[i].data, before[i].data);
        if (i == chosen) {
          EXPECT_EQ(parse_name(list[i].name), new_path);
        } else {
          EXPECT_EQ(list[i], before[i]);
        }
      }
    }
  });
}

TEST_F(CorpusEditTest, DroppingKeepsAllElse) {
  on_every_file([&](const json& test) {
    std::vector<Stored> expected = stored(reader(test::read_options(test)));
    const std::size_t chosen = expected.size() / 2;
    const TensorEdit drop{.tensor = reader().tensors()[chosen].path(), .drop = true};
    if (expected.size() == 1) {
      expect_refused(ErrorCode::kUsage, [&] { edit({drop}); });
      return;
    }
    edit({drop});  // needs no key
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(chosen));
    const Reader after = reader(test::read_options(test));
    after.verify();
    EXPECT_EQ(stored(after), expected);
  });
}

// --- Append ----------------------------------------------------------------------------------------------------------

using AppendTest = EditTest;

TEST_F(AppendTest, NamesOfOldAndNewMakeOneTree) {
  put(test::three_tensors());
  // The same path, one that begins another, one that another begins, a string next to list positions, and twice anew.
  for (const Path& path : {Path{"b"}, Path{"layers"}, Path{"b", "c"}, Path{"layers", "first"}}) {
    expect_refused(ErrorCode::kUsage, [&] { append(one(path)); });
  }
  Content twice = one({"new"});
  twice.add({"new"}, "uint8", {1});
  EXPECT_NE(error_of([&] { append(twice); }), std::nullopt);
  append(one({"layers", std::uint64_t{1}, "bias"}));
  EXPECT_EQ(names().size(), 4U);
}

TEST_F(AppendTest, OnlySegmentsGrow) {
  for (const Layout layout :
       {Layout::kV1, Layout::kV4, Layout::kV5HeadersFirst, Layout::kV5LongDims, Layout::kV5FlaggedDims}) {
    WriteOptions options;
    options.layout = layout;
    put(test::three_tensors(), std::move(options));
    expect_refused(ErrorCode::kUsage, [&] { append(one({"x"})); });
    expect_refused(ErrorCode::kUsage, [&] { edit({{.tensor = {"b"}, .drop = true}}); });
  }
}

TEST_F(AppendTest, HeadsOfDetachedDataAreRefused) {
  const Content content = test::three_tensors();
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  options.detached_data = true;
  MemoryFile head, data;
  write_tensors(head, content.table, content.source(), options, &data);
  write_whole(name_, head.content());
  expect_refused(ErrorCode::kHeaderFlags, [&] { append(one({"x"})); });
  expect_refused(ErrorCode::kHeaderFlags, [&] { edit({{.tensor = {"b"}, .drop = true}}); });
}

TEST_F(AppendTest, NothingIsNothing) {
  put(test::three_tensors());
  expect_refused(ErrorCode::kHeaderCount, [&] { append(Content()); });
}

TEST_F(AppendTest, KeysMustFit) {
  WriteOptions key;
  key.encrypt = test::with_key();
  WriteOptions wrong_key;
  wrong_key.encrypt = EncryptOptions{key_from_hex(std::string(64, 'f'))};
  WriteOptions passphrase;
  passphrase.encrypt = EncryptOptions{Passphrase("x"), kDefaultChunkBytes, 1, 8192};

  put(test::three_tensors());
  expect_refused(ErrorCode::kUsage, [&] { append(one({"x"}), std::move(key)); });

  WriteOptions sealed;
  sealed.encrypt = test::with_key();
  put(test::three_tensors(), std::move(sealed));
  expect_refused(ErrorCode::kUsage, [&] { append(one({"x"})); });
  expect_refused(ErrorCode::kCryptMac, [&] { append(one({"x"}), std::move(wrong_key)); });
  expect_refused(ErrorCode::kCryptMac, [&] { append(one({kLongName}), std::move(passphrase)); });
  WriteOptions right;
  right.encrypt = test::with_key(1024);
  append(one({"x"}, 5'000), std::move(right));
  reader(test::key_options()).verify();
}

TEST_F(AppendTest, APassphraseIsStretchedAsBefore) {
  const auto options = [](const char* text) {
    WriteOptions write;
    write.encrypt = EncryptOptions{Passphrase(text), kDefaultChunkBytes, 1, 8192};
    return write;
  };
  put(test::three_tensors(), options("correct horse"));
  expect_refused(ErrorCode::kCryptMac, [&] { append(one({"x"}), options("wrong horse")); });
  for (int i = 0; i < 20; ++i) append(one({"x" + std::to_string(i)}), options("correct horse"));
  std::set<std::array<unsigned char, 16>> salts;
  reader().check_headers([&](std::size_t, const TensorHeader& header, std::span<const std::byte>) {
    ASSERT_TRUE(header.crypt.key_derivation.has_value());
    std::array<unsigned char, 16> salt;
    std::memcpy(salt.data(), header.crypt.key_derivation->salt.data(), salt.size());
    salts.insert(salt);
  });
  EXPECT_EQ(salts.size(), 1U);
  ReadOptions read;
  read.key = Passphrase("correct horse");
  const Reader opened = reader(std::move(read));
  EXPECT_EQ(opened.tensors().size(), 23U);
  opened.verify();
}

TEST_F(AppendTest, AnEncryptedFileWithoutDataTakesAnyKey) {
  Content content;
  content.add({"m"}, "float32", {3}, true);
  WriteOptions options;
  options.encrypt = test::with_key();
  put(content, std::move(options));
  for (const char* name : {"x", "y"}) {
    WriteOptions passphrase;
    passphrase.encrypt = EncryptOptions{Passphrase("x"), kDefaultChunkBytes, 1, 8192};
    append(one({name}), std::move(passphrase));
  }
  ReadOptions read;
  read.key = Passphrase("x");
  reader(std::move(read)).verify();
}

TEST_F(AppendTest, TensorsOfEverySort) {
  Content content;
  content.add({"scalar"}, "float64", {});
  content.add({"none"}, "float32", {3, 0});
  content.add({"meta"}, "float32", {5, 7}, true);
  content.add({"meta scalar"}, "int64", {}, true);
  content.add({"half"}, "bfloat16", {3, 5});
  content.add({"tree", std::uint64_t{0}}, "uint8", {65});
  content.add({"parameter"}, "int8", {7}, false, Kind::kParameter);
  content.add({"large"}, "uint8", {100'000});
  for (const bool encrypted : {false, true}) {
    const auto options = [&] {
      WriteOptions write;
      write.piece_bytes = 4096;
      if (encrypted) write.encrypt = test::with_key(1024);
      return write;
    };
    put(test::three_tensors(), options());
    append(content, options());
    const Reader opened = reader(encrypted ? test::key_options() : ReadOptions());
    opened.verify();
    ASSERT_EQ(opened.tensors().size(), 3 + content.table.size());
    for (std::size_t i = 0; i < content.table.size(); ++i) {
      const TensorInfo want = content.table[i];
      const TensorInfo got = opened.tensors()[3 + i];
      EXPECT_EQ(got.name, want.name);
      EXPECT_EQ(got.dtype, want.dtype);
      EXPECT_EQ(got.kind, want.kind);
      EXPECT_EQ(got.meta(), want.meta());
      EXPECT_THAT(got.shape, ::testing::ElementsAreArray(want.shape));
      EXPECT_EQ((got.data_offset - opened.segments().data_begin) % kSegmentDataUnit, 0U);
      EXPECT_EQ(stored(opened)[3 + i].data, content.data[i]);
    }
  }
}

TEST_F(AppendTest, GoesBehindWhateverEndsTheFile) {
  put(test::three_tensors());
  const Bytes whole = bytes();
  const Bytes behind = test::random_bytes(1'001, 5);
  const auto begin = static_cast<std::ptrdiff_t>(reader().segments().data_begin);
  for (const std::ptrdiff_t cut : {0, 3, 8}) {
    for (const std::size_t more : {0U, 1'001U}) {
      Bytes content(whole.begin(), whole.end() - cut);
      content.insert(content.end(), behind.begin(), behind.begin() + static_cast<std::ptrdiff_t>(more));
      write_whole(name_, content);
      append(one({"x"}, 100));
      const Bytes after = bytes();
      EXPECT_TRUE(std::equal(content.begin() + begin, content.end(), after.begin() + begin));
      const Reader opened = reader();
      opened.verify();
      EXPECT_GE(opened.tensors()[3].data_offset, content.size());
      // It ends with a terminator of its own.
      EXPECT_EQ(after.size(), opened.tensors()[3].data_offset + 100 + kTerminatorBytes);
      EXPECT_THAT(std::span(after).last(kTerminatorBytes), ::testing::Each(std::byte{0}));
    }
  }
}

TEST_F(AppendTest, SegmentsAreDoubled) {
  put(one({"first"}));
  unsigned growths = 0;
  Segments before = reader().segments();
  std::uint64_t moved = 0;
  for (int i = 0; i < 400; ++i) {
    const Growth growth = append(one({"t" + std::to_string(i)}));
    const Segments after = reader().segments();
    const auto metadata = [](const Segments& s) { return s.metadata_end - s.metadata_begin; };
    const auto headers = [](const Segments& s) { return s.headers_end - s.headers_begin; };
    const unsigned grown = (metadata(after) != metadata(before)) + (headers(after) != headers(before));
    EXPECT_EQ(growth.times, grown);
    EXPECT_EQ(growth.times == 0, growth.inserted_bytes + growth.copied_bytes == 0);
    EXPECT_EQ(growth.times == 0, growth.elapsed_ns == 0);
    if (metadata(after) != metadata(before)) {
      EXPECT_GE(metadata(after), 2 * metadata(before));
    }
    if (headers(after) != headers(before)) {
      EXPECT_GE(headers(after), 2 * headers(before));
    }
    growths += growth.times;
    moved += growth.inserted_bytes;
    before = after;
  }
  // The entries take 15,939 bytes and the headers 30,764, beginning with 4 KiB each.
  EXPECT_EQ(growths, 2U + 3U);
  if (moved > 0) {
    EXPECT_EQ(moved, before.data_begin - 2 * kSegmentEndUnit);
  }
  const Reader opened = reader();
  EXPECT_EQ(opened.tensors().size(), 401U);
  opened.verify();
}

TEST_F(AppendTest, WhatIsNotAlignedIsCopied) {
  write_whole(name_, read_whole(test::corpus_directory() + "valid/segments-unaligned.tensors"));
  ASSERT_NE(reader().segments().headers_end % kSegmentEndUnit, 0U);
  ASSERT_EQ(::chmod(name_.c_str(), 0640), 0);
  const std::uint64_t size = bytes().size();
  const std::vector<Stored> before = stored(reader());
  const Growth growth = append(one({kLongName}));
  EXPECT_EQ(growth.times, 2U);
  EXPECT_EQ(growth.inserted_bytes, 0U);
  EXPECT_GT(growth.copied_bytes, 2 * size);
  const Reader after = reader();
  after.verify();
  std::vector<Stored> list = stored(after);
  ASSERT_EQ(list.size(), before.size() + 1);
  list.pop_back();
  EXPECT_EQ(list, before);
  struct stat status {};
  ASSERT_EQ(::stat(name_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U) << "the copy is for the same people";
}

TEST_F(AppendTest, TakesTheTensorsOfAReaderAndChecksThem) {
  put(test::three_tensors());
  Content content = one({"x"}, 3'000);
  Bytes other = content.write();
  const auto append_other = [&] {
    const Reader source = test::open_bytes(other);
    append_tensors(name_, source.tensors(), source);
  };
  append_other();
  reader().verify();
  put(test::three_tensors());
  other[other.size() - 100] ^= std::byte{1};
  EXPECT_EQ(error_of(append_other), ErrorCode::kHashCrc32);
  // It had begun, and has undone that.
  EXPECT_EQ(recover(name_), Recovery::kNothing);
  EXPECT_EQ(bytes(), [] {
    WriteOptions options;
    options.layout = Layout::kV5Segments;
    return test::three_tensors().write(options);
  }());
}

// --- Edit ------------------------------------------------------------------------------------------------------------

TEST_F(EditTest, RenamesRetypesAndDropsInOneGo) {
  Content content = test::three_tensors();
  content.add({"last"}, "int16", {4}, false, Kind::kBuffer);
  put(content);
  const std::vector<Stored> before = stored(reader());
  // Two names change places: edits speak of what the file has before them.
  edit({{.tensor = {"a.weight"}, .new_path = Path{"b"}, .new_kind = Kind::kParameter},
        {.tensor = {"b"}, .new_path = Path{"a.weight"}},
        {.tensor = {"last"}, .drop = true}});
  EXPECT_THAT(names(), ElementsAre("b", "a.weight", before[2].name));
  const Reader opened = reader();
  opened.verify();
  EXPECT_EQ(opened.tensors()[0].kind, Kind::kParameter);
  EXPECT_EQ(opened.tensors()[1].kind, Kind::kStateDict);
  EXPECT_EQ(opened.header().total_data_bytes, 24U + 8 + 5);
  const std::vector<Stored> after = stored(opened);
  EXPECT_EQ(after[0].data, before[0].data);
  EXPECT_EQ(after[1].data, before[1].data);
  EXPECT_EQ(after[2], before[2]);
}

TEST_F(EditTest, WhatIsDroppedIsNoLongerNamed) {
  Content content = one({"keep"});
  content.add({"the secret name"}, "uint8", {9});
  content.add({"keep too"}, "uint8", {3});
  put(content);
  edit({{.tensor = {"the secret name"}, .drop = true}});
  const Bytes after = bytes();
  EXPECT_THAT(std::string(reinterpret_cast<const char*>(after.data()), after.size()), Not(HasSubstr("secret")));
  EXPECT_THAT(names(), ElementsAre("keep", "keep too"));
  // Its data lies where it was, and room for its name is there again.
  append(content = one({"the secret name"}));
  reader().verify();
}

TEST_F(EditTest, NoOtherBytesThanThoseOfIndexAndHeadersChange) {
  put(test::three_tensors());
  const Bytes before = bytes();
  const Segments segments = reader().segments();
  edit({{.tensor = {"b"}, .new_kind = Kind::kBuffer}});
  const Bytes after = bytes();
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(reader().segments(), segments);
  const auto data_begin = static_cast<std::ptrdiff_t>(segments.data_begin);
  EXPECT_TRUE(std::equal(before.begin() + data_begin, before.end(), after.begin() + data_begin));
  // One byte in the index, and in the header that byte and both hashes.
  const std::size_t differ =
      static_cast<std::size_t>(std::inner_product(before.begin(), before.end(), after.begin(), 0, std::plus<>(),
                                                  [](std::byte a, std::byte b) { return a != b ? 1 : 0; }));
  EXPECT_GT(differ, 2U);
  EXPECT_LE(differ, 2U + 4 + 32);
}

TEST_F(EditTest, RefusesWhatWouldMakeTheFileWrong) {
  Content content = test::three_tensors();
  content.add({"p"}, "uint8", {1}, false, Kind::kParameter);
  put(content);
  const auto rename = [&](const Path& from, const Path& to) { edit({{.tensor = from, .new_path = to}}); };
  expect_refused(ErrorCode::kUsage, [&] { rename({"p"}, {"p", "q"}); });
  expect_refused(ErrorCode::kUsage, [&] {
    edit({{.tensor = {"layers", std::uint64_t{0}, "bias"}, .new_kind = Kind::kBuffer}});
  });
  expect_refused(ErrorCode::kUsage, [&] { rename({"p"}, {"b"}); });
  expect_refused(ErrorCode::kUsage, [&] { rename({"p"}, {"layers"}); });
  expect_refused(ErrorCode::kUsage, [&] { rename({"b"}, {"layers", "b"}); });
  expect_refused(ErrorCode::kUsage, [&] { rename({"b"}, {std::string(65'536, 'x')}); });
  expect_refused(ErrorCode::kNameUnwritable, [&] { rename({"b"}, {""}); });
  expect_refused(ErrorCode::kNoSuchTensor, [&] { rename({"absent"}, {"x"}); });
  expect_refused(ErrorCode::kNoSuchTensor, [&] { rename({"a", "weight"}, {"x"}); });
  // One that is wrong undoes those that are right.
  expect_refused(ErrorCode::kNoSuchTensor, [&] {
    edit({{.tensor = {"b"}, .drop = true}, {.tensor = {"absent"}, .drop = true}});
  });
  expect_refused(ErrorCode::kUsage, [&] {
    edit({{.tensor = {"a.weight"}, .drop = true},
          {.tensor = {"b"}, .drop = true},
          {.tensor = {"p"}, .drop = true},
          {.tensor = {"layers", std::uint64_t{0}, "bias"}, .drop = true}});
  });
  rename({"p"}, {"q"});
  edit({{.tensor = {"q"}, .new_path = Path{"q", "r"}, .new_kind = Kind::kStateDict}});
  reader().verify();
}

TEST_F(EditTest, DataThatIsWrongGetsNoHashThatSaysItIsRight) {
  put(test::three_tensors());
  Bytes broken = bytes();
  broken[reader().tensors()[1].data_offset] ^= std::byte{1};
  write_whole(name_, broken);
  expect_refused(ErrorCode::kHashCrc32, [&] { edit({{.tensor = {"b"}, .new_path = Path{"x"}}}); });
  expect_refused(ErrorCode::kHashCrc32, [&] { edit({{.tensor = {"b"}, .new_kind = Kind::kBuffer}}); });
  // Other tensors can still be changed.
  edit({{.tensor = {"a.weight"}, .new_path = Path{"x"}}});
  edit({{.tensor = {"b"}, .drop = true}});
  reader().verify();
}

TEST_F(EditTest, EncryptedDataIsHashedAnewWithTheKey) {
  WriteOptions sealed;
  sealed.encrypt = test::with_key();
  put(test::three_tensors(), std::move(sealed));
  const std::vector<TensorEdit> rename = {{.tensor = {"b"}, .new_path = Path{"x"}}};
  expect_refused(ErrorCode::kCryptKeyMissing, [&] { edit(rename); });
  const auto key = [](std::string_view hex) {
    EditOptions options;
    options.key = key_from_hex(hex);
    return options;
  };
  expect_refused(ErrorCode::kCryptMac, [&] { edit(rename, key(std::string(64, 'f'))); });
  edit(rename, key(test::kKeyHex));
  edit({{.tensor = {"a.weight"}, .drop = true}});
  const Reader opened = reader(test::key_options());
  opened.verify();
  EXPECT_EQ(opened.tensors().size(), 2U);
}

}  // namespace
}  // namespace tzmark
