// What is said about files that are not what they were read as, and that nothing is said about files that are.
#include "codec/foreign_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bytes/cursor.h"
#include "testing/caught.h"
#include "testing/files/corpus.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"

namespace tzmark {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string said_of(const std::string& head, ReadAs read_as = ReadAs::kSafetensors,
                    std::optional<std::uint64_t> file_bytes = {}) {
  return describe_foreign(as_bytes(head), file_bytes.value_or(head.size()), read_as).value_or("nothing");
}

const std::string kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 548105171\n";

TEST(ForeignFile, IsSaidToLookLikeWhatItIs) {
  EXPECT_EQ(said_of(kPointer),
            "this is not a safetensors file; it looks like a Git LFS pointer to a file of 548105171 bytes: run `git "
            "lfs pull` in its repository");
  EXPECT_EQ(said_of("", ReadAs::kTensors),
            "the file is empty, as an interrupted download or copy leaves it: fetch it again");
  EXPECT_THAT(said_of(std::string(4096, '\0')), StartsWith("the file begins with zeros"));
  const std::pair<std::string, std::string> files[] = {
      {"<!DOCTYPE html><html>", "a web page"},
      {"\n  <HTML lang=en>", "a web page"},
      {"\xef\xbb\xbf<html>", "a web page"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", "XML"},
      {"{\"error\": \"Repository not found\"}", "JSON text"},
      {"{\n  \"metadata\": {\"total_size\": 1}, \"weight_map\": {}}", "an index of sharded safetensors"},
      {"PK\x03\x04\x14\0\0\0\0\0\xfc=z]\xf2\x91\x02\xc5\6\0\0\0\6\0\0\0\x10\0\0\0archive/data.pkl\x80\2}q\0."s,
       "a checkpoint of torch.save (a zip with a pickle)"},
      {"PK\x03\x04\x14\0\0\0\0\0\xfc=z]\xf2\x91\x02\xc5\6\0\0\0\6\0\0\0\x05\0\0\0w.npy\x93NUMPY"s, "an .npz file"},
      {"PK\x03\x04\x14\0\0\0\0\0\xfc=z]\xf2\x91\x02\xc5\6\0\0\0\6\0\0\0\x05\0\0\0a.txtab"s, "a zip archive"},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."s,
       "torch.save in its format before"},
      {"\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94."s, "a Python pickle"},
      {"\x80\x02}q\0X\1\0\0\0wq\1"s, "a Python pickle"},
      {"\x1f\x8b\x08\0\0\0\0\0\0\3"s, "a gzip file"},
      {"GGUF\3\0\0\0\x23\1\0\0\0\0\0\0"s, "a GGUF file"},
      {"\x89HDF\r\n\x1a\n\0\0"s, "an HDF5 file"},
      {"\x93NUMPY\1\0v\0"s, "an .npy file"},
      {"\x28\xb5\x2f\xfd\4\0"s, "a Zstandard file"},
      {"model.ckpt"s + std::string(247, '\0') + "ustar  ", "a tar archive"},
      {"|TZR|\1\0\0\0"s, "a .tensors file"},
      {"|TZD|\1\0\0\0"s, "the detached data of a .tensors file"},
      {"Entry not found", "text, such as the message of a server (\"Entry not found\")"},
      {"\nInvalid username or password.\r\n", "text, such as the message of a server (\"Invalid username or"},
      // ir_version 7, producer "pytorch" "1.13", and the graph, which the head does not hold whole.
      {"\x08\x07\x12\x07pytorch\x1a\x04"s + "1.13:\x20\n\x0e\n\1x\x12\1y", "an ONNX model"},
      {"\x08\x08:\x20\n\x0e\n\1x\x12\1y"s, "an ONNX model"},
  };
  for (const auto& [head, name] : files) {
    // Only of a whole file is it said that it is text.
    const std::uint64_t file_bytes = head.size() + (name.starts_with("text") ? 0 : 64);
    EXPECT_THAT(said_of(head, ReadAs::kSafetensors, file_bytes), HasSubstr("it looks like "s))
        << testing::PrintToString(head);
    EXPECT_THAT(said_of(head, ReadAs::kSafetensors, file_bytes), HasSubstr(name));
  }
  EXPECT_THAT(said_of("\x3e\0\0\0\0\0\0\0{\"w\":"s, ReadAs::kTensors), HasSubstr("looks like a safetensors file"));
}

TEST(ForeignFile, NothingIsSaidOfWhatIsNotCharacteristic) {
  for (const std::string& head : {
           "|TZR|"s,
           "|"s,
           std::string(100, '\0'),
           "version"s,
           "PK"s,
           "\x80"s,
           "\x80\x02"s,
           "\x80\x02\0\0\0\0\0\0"s,
           "\x80\x04\0\0\0\0\0\0"s,
           // A length of 123 bytes, and one of 34 that a brace follows.
           "{\0\0\0\0\0\0\0 "s,
           "\"\0\0\0\0\0\0\0{"s,
           // Not protobuf of a model: no version, a version of 0, an unknown field, a field that is too long, a name
           // that is not text, and only a version and a name.
           "\x12\x07pytorch"s,
           "\x08\0\x12\1x:\1y"s,
           "\x08\7\x4a\1x:\1y"s,
           "\x08\7\x12\x7fx"s,
           "\x08\7\x12\2\1\2:\1y"s,
           "\x08\7\x12\1x"s,
           "\x08\x07"s,
           "\x08"s,
           "\x08\x07\0\0\0\0\0\0"s,
       }) {
    EXPECT_EQ(said_of(head, ReadAs::kTensors), "nothing") << testing::PrintToString(head);
  }
  // The beginning of a large file.
  EXPECT_EQ(said_of("hello, world", ReadAs::kTensors, 4096), "nothing");
  // What fails as an index, but is JSON, fails for its content.
  EXPECT_EQ(said_of("{\"weight_map\": 3}", ReadAs::kShardIndex), "nothing");
}

TEST(ForeignFile, EveryPrefixOfEachIsLookedAtWithoutHarm) {
  std::string all = "\x08\x07\x12\x07pytorch\x1a\x04"s + "1.13:\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\n";
  for (std::size_t bytes = 0; bytes <= all.size(); ++bytes) {
    for (const std::uint64_t file_bytes : {bytes, std::size_t{1} << 40}) {
      said_of(all.substr(0, bytes), ReadAs::kTensors, file_bytes);
    }
  }
}

TEST(ForeignFile, NoValidFileLooksForeign) {
  int valid = 0;
  for (const auto& test : test::manifest().at("cases")) {
    if (test.at("verdict") == "invalid") continue;
    std::ifstream stream(test::corpus_directory() + test.at("path").get<std::string>(), std::ios::binary);
    std::string head(kForeignLookBytes, '\0');
    stream.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<std::size_t>(stream.gcount()));
    EXPECT_EQ(said_of(head, ReadAs::kTensors, std::uint64_t{1} << 40), "nothing") << test.at("id");
    ++valid;
  }
  EXPECT_GT(valid, 400);
}

std::optional<Error> error_of_bytes(const std::string& content) {
  try {
    test::open_bytes({as_bytes(content).begin(), as_bytes(content).end()});
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

TEST(ForeignFile, TheReaderKeepsRuleAndByte) {
  const auto pointer = error_of_bytes(kPointer);
  ASSERT_TRUE(pointer);
  EXPECT_STREQ(pointer->what(),
               "error TZR-HDR-002 at byte 0: this is not a .tensors file; it looks like a Git LFS pointer to a file of "
               "548105171 bytes: run `git lfs pull` in its repository");
  const auto empty = error_of_bytes("");
  ASSERT_TRUE(empty);
  EXPECT_THAT(empty->what(), StartsWith("error TZR-HDR-001 at byte 0: the file is empty"));
  const auto unknown = error_of_bytes("\x01\x02\x03, world");
  ASSERT_TRUE(unknown);
  EXPECT_THAT(unknown->what(), HasSubstr("it does not begin with |TZR|"));
}

TEST(ForeignFile, TheDetachedDataIsLookedAtToo) {
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  options.detached_data = true;
  const test::Content content = test::three_tensors();
  const auto directory = std::filesystem::temp_directory_path() / "tzmark-foreign-XXXXXX";
  std::string name = directory.string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const std::string head = name + "/head", data = head + ".data";
  write_file(head, content.table, content.source(), options);
  std::ofstream(data, std::ios::binary | std::ios::trunc) << kPointer;
  ReadOptions reading;
  reading.data_file_name = data;
  try {
    Reader::open(head, std::move(reading));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("error TZX-SPL-001"));
    EXPECT_THAT(error.what(), HasSubstr("not the detached data of a .tensors file; it looks like a Git LFS pointer"));
  }
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace tzmark
