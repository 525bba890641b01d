// Tests of the commands that change files or convert them to another format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "testing/files/command.h"
#include "testing/files/tensors_files.h"

namespace tzmark {
namespace {

using nlohmann::json;
using test::CliTest;
using test::Result;
using test::slurp;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ChangeTest : public CliTest {
 protected:
  ChangeTest() {
    WriteOptions options;
    options.layout = Layout::kV5Segments;
    file_ = write("file", test::three_tensors().write(options));
    raw_ = write("raw", std::string(24, 'x'));
  }
  // Names and kinds in the order of the file.
  std::string names() const {
    std::string text;
    const json decoded = json::parse(run({"dump", file_}).out);
    for (const json& tensor : decoded.at("tensors")) {
      text += tensor.at("path").dump() + " " + tensor.at("kind").get<std::string>() + "\n";
    }
    return text;
  }

  std::string file_, raw_;
};

constexpr const char* kThree = "[\"a.weight\"] state_dict\n[\"b\"] state_dict\n[\"layers\",0,\"bias\"] state_dict\n";

TEST_F(ChangeTest, AppendsRawFilesAndWholeFiles) {
  Result result = run({"append", file_, "--raw", "new", "float32", "2,3", raw_, "--raw", "bytes", "uint8", "24", raw_,
                       "--show-growth"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(json::parse(result.out).at("growths"), 0);
  EXPECT_EQ(names(), std::string(kThree) + "[\"new\"] state_dict\n[\"bytes\"] state_dict\n");
  EXPECT_EQ(run({"extract", file_, "new"}).out, std::string(24, 'x'));
  test::Content more;
  more.add({"layers", std::uint64_t{1}, "bias"}, "bfloat16", {3});
  const std::string input = write("more", more.write());
  EXPECT_EQ(run({"append", file_, input}).status, 0);
  EXPECT_EQ(run({"verify", file_}).status, 0);
  EXPECT_THAT(names(), HasSubstr("[\"layers\",1,\"bias\"]"));
}

TEST_F(ChangeTest, AppendRejectsInvalidTensors) {
  const std::string before = slurp(file_);
  EXPECT_EQ(run({"append", file_}).status, 2);
  EXPECT_EQ(run({"append", file_, file_, "--raw", "new", "float32", "2,3", raw_}).status, 2);
  EXPECT_THAT(run({"append", file_, file_}).err, HasSubstr("TZR-NAM-006"));
  EXPECT_EQ(run({"append", file_, file_}).status, 2);
  EXPECT_EQ(run({"append", file_, "--raw", "new", "float32", "2,4", raw_}).status, 2);
  EXPECT_EQ(run({"append", file_, "--raw", "new", "float32", "2,", raw_}).status, 2);
  EXPECT_EQ(run({"append", file_, "--raw", "new", "float31", "6", raw_}).status, 2);
  EXPECT_EQ(run({"append", file_, "--raw", "layers", "float32", "6", raw_}).status, 2);
  EXPECT_EQ(
      run({"append", file_, "--raw", "new", "float32", "6", raw_, "--encrypt-key-hex", std::string(64, '0')}).status,
      2);
  EXPECT_EQ(run({"append", path("missing"), file_}).status, 3);
  const std::string v4 = write("v4", test::three_tensors().write());
  EXPECT_THAT(run({"append", v4, "--raw", "new", "float32", "6", raw_}).err, HasSubstr("only v5-segments files"));
  EXPECT_EQ(slurp(file_), before);
}

TEST_F(ChangeTest, AppendAttributesHashMismatchesToTheInput) {
  auto damaged = test::three_tensors().write();
  damaged[damaged.size() - 9] ^= std::byte{1};
  const std::string before = run({"dump", file_}).out;
  ASSERT_EQ(run({"edit", file_, "--drop", "a.weight", "--drop", "b"}).status, 0);
  ASSERT_EQ(run({"edit", file_, "--rename", "[\"layers\",0,\"bias\"]", "other"}).status, 0);
  const Result result = run({"append", file_, write("bad", damaged)});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("bad: error TZR-HSH"));
  // The append had started, and is undone.
  EXPECT_EQ(run({"verify", file_}).status, 0);
  EXPECT_EQ(names(), "[\"other\"] state_dict\n");
  EXPECT_THAT(run({"edit", file_, "--recover"}).out, HasSubstr("nothing to recover"));
  // A file of another program under the journal's name is neither ignored nor removed.
  const std::string foreign = write("file.tzmark-intent", std::string("a note"));
  fs::permissions(foreign, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(run({"verify", file_}).status, 3);
  EXPECT_THAT(run({"verify", file_}).err, HasSubstr("TZE-ENV-007"));
  EXPECT_THAT(run({"edit", file_, "--recover"}).err, HasSubstr("damaged, or not from tzmark"));
  EXPECT_EQ(slurp(foreign), "a note");
  fs::remove(foreign);
  EXPECT_EQ(run({"verify", file_}).status, 0);
  // What killed processes did not finish is reported and kept.
  const std::string copy = write("file.tzmark-grow-0123456789abcdef", std::string("a copy"));
  const std::string journal = write("file.tzmark-intent.tmp-01234567", std::string("a journal"));
  const Result recovered = run({"edit", file_, "--recover"});
  EXPECT_EQ(recovered.status, 0);
  for (const std::string& left : {copy, journal}) {
    EXPECT_THAT(recovered.err, HasSubstr(left + ": note: "));
    EXPECT_TRUE(fs::exists(left));
  }
}

TEST_F(ChangeTest, EditsAllOrNothing) {
  EXPECT_EQ(run({"edit", file_}).status, 2);
  EXPECT_EQ(run({"edit", file_, "--restored"}).status, 2);
  EXPECT_EQ(run({"edit", file_, "--recover", "--restored"}).status, 0);
  EXPECT_EQ(run({"edit", file_, "--rename", "b", "c", "--drop", "missing"}).status, 2);
  EXPECT_EQ(run({"edit", file_, "--kind", "b", "tensor"}).status, 2);
  EXPECT_EQ(run({"edit", file_, "--kind", R"(["layers",0,"bias"])", "buffer"}).status, 2) << "its name is structured";
  EXPECT_EQ(run({"edit", file_, "--rename", "b", "a.weight"}).status, 2);
  EXPECT_EQ(run({"edit", file_, "--drop", "b", "--drop", "a.weight", "--drop", R"(["layers",0,"bias"])"}).status, 2);
  for (const std::vector<std::string>& second :
       {std::vector<std::string>{"--rename", "b", "d"}, {"--drop", "b"}, {"--rename", "b", "c"}}) {
    std::vector<std::string> arguments = {"edit", file_, "--rename", "b", "c"};
    arguments.insert(arguments.end(), second.begin(), second.end());
    EXPECT_THAT(run(arguments).err, HasSubstr("contradict each other"));
  }
  EXPECT_EQ(names(), kThree);
  // Swapping two names works only if each edit uses the names in the file.
  EXPECT_EQ(
      run({"edit", file_, "--rename", "b", "a.weight", "--rename", "a.weight", "b", "--kind", "b", "buffer"}).status,
      0);
  EXPECT_EQ(names(), "[\"b\"] state_dict\n[\"a.weight\"] buffer\n[\"layers\",0,\"bias\"] state_dict\n");
  EXPECT_EQ(run({"verify", file_}).status, 0);
  EXPECT_EQ(run({"edit", file_, "--drop", "b"}).status, 0);
  EXPECT_EQ(slurp(file_).find("weight") != std::string::npos, true);
  EXPECT_EQ(run({"verify", file_}).status, 0);
}

TEST_F(ChangeTest, ReadsAndConvertsFilesWithTheLongestNames) {
  const std::string longest(255, 'n');
  fs::rename(file_, path(longest));
  EXPECT_EQ(run({"verify", path(longest)}).status, 0);
  EXPECT_EQ(run({"convert", path(longest), path(longest)}).status, 0);
  // The name of the undo journal is longer.
  const Result edit = run({"edit", path(longest), "--drop", "b"});
  EXPECT_EQ(edit.status, 3);
  EXPECT_THAT(edit.err,
              HasSubstr(".tzmark-intent, which has 269 bytes, and at most 255 are possible: rename the file"));
  EXPECT_EQ(run({"convert", path(longest), path(longest), "--layout", "v5-segments", "--split"}).status, 3);
}

// A file that a command reads is not the one that it writes, unless that is its only input.
TEST_F(ChangeTest, RefusesToReplaceWhatItReads) {
  const std::string key = write("key", std::string(32, 'k')), other_name = path("other-name");
  fs::create_hard_link(key, other_name);
  const auto expect_refused = [&](const std::vector<std::string>& words, const std::string& file) {
    const std::string before = slurp(file);
    const Result result = run(words);
    EXPECT_EQ(result.status, 2) << words[0] << result.err;
    EXPECT_THAT(result.err, HasSubstr("write to another name")) << words[0];
    EXPECT_EQ(slurp(file), before) << words[0];
  };
  for (const std::string& out : {key, other_name}) {
    expect_refused({"convert", file_, out, "--encrypt-key-file", key}, key);
    expect_refused({"convert", file_, out, "--encrypt-passphrase-file", key}, key);
  }
  const std::string data_key = write("head.data", std::string(32, 'k'));
  expect_refused({"convert", file_, path("head"), "--split", "--encrypt-key-file", data_key}, data_key);
  ASSERT_EQ(run({"convert", file_, path("secret"), "--encrypt-key-file", key}).status, 0);
  expect_refused({"convert", path("secret"), key, "--key-file", key}, key);
  expect_refused({"extract", path("secret"), "b", "-o", key, "--key-file", key}, key);
  expect_refused({"extract", file_, "b", "-o", file_}, file_);
  expect_refused({"append", file_, "--raw", "w", "uint8", std::to_string(fs::file_size(file_)), file_}, file_);
  ASSERT_EQ(run({"convert", file_, path("pair"), "--split", "--layout", "v5-segments"}).status, 0);
  const std::string data = path("pair.data");
  expect_refused({"convert", path("pair"), data, "--data-file", data}, data);
  expect_refused({"extract", path("pair"), "b", "-o", data, "--data-file", data}, data);
  EXPECT_EQ(run({"convert", file_, file_}).status, 0);
}

TEST_F(ChangeTest, DetachedDataNeedsBothFiles) {
  EXPECT_EQ(run({"convert", file_, path("head"), "--split", "--layout", "v4"}).status, 2);
  EXPECT_EQ(run({"convert", file_, "-", "--split", "--layout", "v5-segments"}).status, 2);
  ASSERT_EQ(run({"convert", file_, path("head"), "--split", "--layout", "v5-segments"}).status, 0);
  EXPECT_EQ(run({"verify", path("head"), "--data-file", path("head.data")}).status, 0);
  const Result alone = run({"verify", path("head")});
  EXPECT_EQ(alone.status, 1);
  EXPECT_THAT(alone.err, HasSubstr("TZR-HDR-004 at byte 40"));
  EXPECT_EQ(run({"verify", file_, "--data-file", path("head.data")}).status, 2);
  EXPECT_THAT(run({"verify", path("head"), "--data-file", path("gone")}).err, HasSubstr("gone: cannot open"));
  ASSERT_EQ(
      run({"convert", path("head"), path("whole"), "--data-file", path("head.data"), "--layout", "v5-segments"}).status,
      0);
  EXPECT_EQ(slurp(path("whole")), slurp(file_));
}

TEST_F(ChangeTest, ConvertsSafetensorsThereAndBack) {
  ASSERT_EQ(run({"edit", file_, "--rename", R"(["layers",0,"bias"])", "bias"}).status, 0);
  ASSERT_EQ(run({"convert", file_, path("m.safetensors")}).status, 0);
  EXPECT_EQ(run({"verify", path("m.safetensors")}).status, 0);
  EXPECT_THAT(run({"inspect", path("m.safetensors")}).out, HasSubstr("a.weight"));
  EXPECT_EQ(run({"extract", path("m.safetensors"), "bias"}).out, run({"extract", file_, "bias"}).out);
  ASSERT_EQ(run({"convert", path("m.safetensors"), path("s.safetensors"), "--shard-bytes", "16"}).status, 0);
  EXPECT_EQ(run({"verify", path("s.safetensors.index.json")}).status, 0);
  ASSERT_EQ(run({"convert", path("s.safetensors.index.json"), path("back"), "--layout", "v5-segments"}).status, 0);
  for (const char* name : {"a.weight", "b", "bias"}) {
    EXPECT_EQ(run({"extract", path("back"), name}).out, run({"extract", file_, name}).out) << name;
  }
  EXPECT_EQ(run({"append", file_, path("m.safetensors")}).status, 2) << "the names are taken";
}

class MetadataTest : public ChangeTest {
 protected:
  MetadataTest() {
    EXPECT_EQ(run({"edit", file_, "--rename", R"(["layers",0,"bias"])", "bias"}).status, 0);
    EXPECT_EQ(run({"convert", file_, lora(), "--metadata", "rank=16", "--metadata", "note=a=b"}).status, 0);
  }
  std::string lora() const { return path("lora.safetensors"); }
  json metadata_of(const std::string& name) const { return json::parse(run({"dump", name}).out).at("metadata"); }
};

TEST_F(MetadataTest, SaysThatTensorsFilesAreOfPytorch) {
  EXPECT_EQ(metadata_of(lora()), json({{"format", "pt"}, {"note", "a=b"}, {"rank", "16"}}));
  ASSERT_EQ(run({"convert", file_, path("pt.safetensors")}).status, 0);
  EXPECT_EQ(metadata_of(path("pt.safetensors")), json({{"format", "pt"}}));
  const Result back = run({"convert", path("pt.safetensors"), path("back")});
  EXPECT_EQ(back.status, 0) << back.err;
  ASSERT_EQ(run({"convert", file_, path("flax.safetensors"), "--metadata", "format=flax"}).status, 0);
  EXPECT_EQ(metadata_of(path("flax.safetensors")), json({{"format", "flax"}}));
  ASSERT_EQ(run({"convert", file_, path("none.safetensors"), "--drop-metadata"}).status, 0);
  EXPECT_EQ(metadata_of(path("none.safetensors")), json::object());
}

TEST_F(MetadataTest, IsNeverLostSilently) {
  const Result refused = run({"convert", lora(), path("lora.tensors")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err, "tzmark: " + lora() +
                             ": error TZE-USE-001: the metadata 'note', 'rank' would be lost, because a .tensors file "
                             "has none: --drop-metadata leaves it out\n");
  EXPECT_FALSE(fs::exists(path("lora.tensors")));
  EXPECT_EQ(run({"convert", lora(), "-"}).status, 2);
  EXPECT_EQ(run({"convert", lora(), path("lora.tensors"), "--drop-metadata"}).status, 0);
  EXPECT_EQ(run({"verify", path("lora.tensors")}).status, 0);
  // A format that the other direction would not write is lost as well.
  ASSERT_EQ(run({"convert", file_, path("flax.safetensors"), "--metadata", "format=flax"}).status, 0);
  EXPECT_THAT(run({"convert", path("flax.safetensors"), path("x.tensors")}).err, HasSubstr("'format' would be lost"));

  ASSERT_EQ(run({"edit", file_, "--rename", "bias", "b2", "--rename", "b", "b3", "--rename", "a.weight", "a2"}).status,
            0);
  const Result append = run({"append", file_, lora()});
  EXPECT_EQ(append.status, 2);
  EXPECT_THAT(append.err, HasSubstr(lora() + ": error TZE-USE-001: the metadata 'note', 'rank' would be lost"));
  EXPECT_EQ(run({"append", file_, lora(), "--drop-metadata"}).status, 0);
}

TEST_F(MetadataTest, IsKeptAmongSafetensors) {
  ASSERT_EQ(run({"convert", lora(), path("s.safetensors"), "--shard-bytes", "16", "--metadata", "rank=32"}).status, 0);
  const json wanted = {{"format", "pt"}, {"note", "a=b"}, {"rank", "32"}};
  EXPECT_EQ(metadata_of(path("s.safetensors.index.json")), wanted);
  ASSERT_EQ(run({"convert", lora(), path("d.safetensors"), "--drop-metadata", "--metadata", "a="}).status, 0);
  EXPECT_EQ(metadata_of(path("d.safetensors")), json({{"a", ""}}));
  ASSERT_EQ(run({"convert", path("d.safetensors"), path("e.safetensors")}).status, 0);
  EXPECT_EQ(metadata_of(path("e.safetensors")), json({{"a", ""}})) << "nothing is added to another file's metadata";
  const Result no_value = run({"convert", lora(), path("x.safetensors"), "--metadata", "rank"});
  EXPECT_EQ(no_value.status, 2);
  EXPECT_THAT(no_value.err, HasSubstr("--metadata: 'rank' is not of the form KEY=VALUE"));
  EXPECT_EQ(run({"convert", lora(), path("x.safetensors"), "--metadata", "=v"}).status, 2);
  EXPECT_THAT(run({"convert", file_, path("x.tensors"), "--metadata", "a=b"}).err, HasSubstr("for safetensors only"));
}

// Shards and their index may contradict each other, but one file has one value.
TEST_F(MetadataTest, OfShardsIsNotLostSilently) {
  const auto shard = [](const std::string& tensor, const std::string& rank) {
    std::string header = R"({"__metadata__":{"rank":")" + rank + R"("},")" + tensor +
                         R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    header.resize(96, ' ');
    return std::string("\x60\0\0\0\0\0\0\0", 8) + header + "x";
  };
  write("s-00001-of-00002.safetensors", shard("x", "16"));
  write("s-00002-of-00002.safetensors", shard("y", "32"));
  const std::string index = write("s.safetensors.index.json",
                                  std::string(R"({"metadata":{"total_size":2,"quantization":"awq"},"weight_map":{)") +
                                      R"("x":"s-00001-of-00002.safetensors","y":"s-00002-of-00002.safetensors"}})");
  for (const std::vector<std::string>& rest : {std::vector<std::string>{path("one.safetensors")},
                                               {path("two.safetensors"), "--shard-bytes", "1"},
                                               {path("one.tensors")}}) {
    std::vector<std::string> words = {"convert", index};
    words.insert(words.end(), rest.begin(), rest.end());
    const Result refused = run(words);
    EXPECT_EQ(refused.status, 2) << rest[0];
    EXPECT_THAT(refused.err, HasSubstr("the metadata 'rank' is '16' in s-00001-of-00002.safetensors and '32' in "
                                       "s-00002-of-00002.safetensors"));
    EXPECT_FALSE(fs::exists(rest[0]));
  }
  EXPECT_EQ(run({"append", file_, index}).status, 2);
  const json wanted = {{"quantization", "awq"}, {"rank", "64"}};
  ASSERT_EQ(run({"convert", index, path("one.safetensors"), "--metadata", "rank=64"}).status, 0);
  EXPECT_EQ(metadata_of(path("one.safetensors")), wanted);
  ASSERT_EQ(run({"convert", index, path("two.safetensors"), "--metadata", "rank=64", "--shard-bytes", "1"}).status, 0);
  const json written = json::parse(slurp(path("two.safetensors.index.json")));
  EXPECT_EQ(written.at("metadata"), json({{"quantization", "awq"}, {"total_size", 2}}));
  EXPECT_EQ(run({"convert", index, path("one.tensors"), "--drop-metadata"}).status, 0);
  ASSERT_EQ(run({"convert", index, path("none.safetensors"), "--drop-metadata"}).status, 0);
  EXPECT_EQ(metadata_of(path("none.safetensors")), json::object());
  EXPECT_EQ(run({"append", file_, index, "--drop-metadata"}).status, 0);
}

TEST_F(ChangeTest, RejectsWhatSafetensorsCannotHold) {
  const Result structured = run({"convert", file_, path("m.safetensors")});
  EXPECT_EQ(structured.status, 2);
  EXPECT_THAT(structured.err, HasSubstr("ST-018"));
  EXPECT_FALSE(fs::exists(path("m.safetensors")));
  const std::string plain = write("plain.safetensors", std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_EQ(run({"verify", plain}).status, 0);
  EXPECT_EQ(run({"verify", plain, "--key-hex", std::string(64, '0')}).status, 1);
  EXPECT_EQ(run({"convert", plain, path("x.safetensors"), "--layout", "v4"}).status, 2);
  EXPECT_EQ(run({"convert", file_, path("x"), "--shard-bytes", "1KiB"}).status, 2);
  const std::string broken = write("broken.safetensors", std::string("\x08\0\0\0\0\0\0\0 {}     ", 16));
  const Result strict = run({"verify", broken});
  EXPECT_EQ(strict.status, 1);
  EXPECT_THAT(strict.err, HasSubstr("ST-005 at byte 8"));
  EXPECT_EQ(run({"verify", broken, "--safetensors-profile", "library"}).status, 0);
}

}  // namespace
}  // namespace tzmark
