// Models are found in directories and known by their content; what a foreign file is said to be, in both formats.
#include "tzmark/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/caught.h"
#include "testing/files/corpus.h"
#include "testing/files/safetensors_models.h"
#include "testing/files/source_file.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using test::safetensors_bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::string_view kHeader = R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n";

std::vector<std::byte> one_tensor() { return safetensors_bytes(kHeader, 3); }

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Opens a model of either format as programs do, and returns its number of tensors.
std::size_t tensors_in(const std::string& name) {
  ModelFile model = open_model_file(name);
  if (model.format == ModelFormat::kTensors)
    return Reader::open(std::move(model.file), model.file_name).tensors().size();
  return SafetensorsReader::open(std::move(model.file), model.file_name).size();
}

TEST(ModelFile, TheContentTellsTheFormat) {
  const test::TestDirectory room;
  const auto tensors = test::three_tensors().write();
  for (const std::string name : {"4d7a2146", "a.SAFETENSORS", "a.safetensors", "a.tensors", "a.json", "a.bin"}) {
    test::write_whole(room / name, one_tensor());
    EXPECT_EQ(open_model_file(room / name).format, ModelFormat::kSafetensors) << name;
    EXPECT_EQ(tensors_in(room / name), 1U) << name;
    test::write_whole(room / name, tensors);
    EXPECT_EQ(open_model_file(room / name).format, ModelFormat::kTensors) << name;
    EXPECT_EQ(tensors_in(room / name), 3U) << name;
  }
}

TEST(ModelFile, TheNameTellsTheFormatWhereTheContentDoesNot) {
  const test::TestDirectory room;
  const auto rule = [&](const std::string& name) {
    test::write_whole(room / name, as_bytes(kPointer));
    return message_of([&] { tensors_in(room / name); });
  };
  EXPECT_THAT(rule("a.safetensors"), AllOf(HasSubstr("error ST-002 at byte 0: this is not a safetensors file"),
                                           HasSubstr("Git LFS pointer to a file of 12345 bytes")));
  EXPECT_THAT(rule("a.SAFETENSORS"), HasSubstr("error ST-002 at byte 0"));
  EXPECT_THAT(rule("a.safetensors.index.json"),
              AllOf(HasSubstr("error ST-016 at byte 0: this is not an index"), HasSubstr("Git LFS pointer")));
  EXPECT_THAT(rule("a.tensors"), HasSubstr("error TZR-HDR-002 at byte 0: this is not a .tensors file"));
  EXPECT_THAT(rule("4d7a2146"), HasSubstr("error TZR-HDR-002 at byte 0: this is not a .tensors file"));
}

TEST(ModelFile, EachReaderKnowsTheOtherFormat) {
  EXPECT_THAT(message_of([] { test::open_bytes(one_tensor()); }),
              HasSubstr("TZR-HDR-002 at byte 0: this is not a .tensors file; it looks like a safetensors file"));
  EXPECT_THAT(message_of([] { test::open_safetensors(test::three_tensors().write()); }),
              HasSubstr("ST-002 at byte 0: this is not a safetensors file; it looks like a .tensors file"));
}

// A repository that was cloned without Git LFS has its index, but pointers in place of the shards.
TEST(ModelFile, AShardThatIsAPointerIsNamed) {
  const test::TestDirectory room;
  const std::string shard = "model-00001-of-00001.safetensors";
  test::write_whole(room / "model.safetensors.index.json", as_bytes(R"({"weight_map": {"w": ")" + shard + R"("}})"));
  test::write_whole(room / shard, as_bytes(kPointer));
  EXPECT_THAT(
      message_of([&] { tensors_in(room / "model.safetensors.index.json"); }),
      HasSubstr("error ST-002 at byte 0: " + shard + ": this is not a safetensors file; it looks like a Git LFS"));
}

TEST(ModelFile, ADirectoryIsItsOnlyModel) {
  const test::TestDirectory room;
  std::filesystem::create_directory(room / "m");
  const auto opened = [&]() -> std::string {
    std::string name;
    const std::string message = message_of([&] { name = open_model_file(room / "m").file_name; });
    return name.empty() ? message : std::filesystem::path(name).filename().string();
  };
  const auto add = [&](const std::string& name) { test::write_whole(room / ("m/" + name), one_tensor()); };
  EXPECT_THAT(opened(), HasSubstr("error TZE-ENV-001: the directory contains no model"));
  add("config.json");
  add("pytorch_model.bin");
  add("._model.safetensors");  // of macOS
  EXPECT_THAT(opened(), HasSubstr("error TZE-ENV-001: the directory contains no model"));
  add("model-00001-of-00002.safetensors");
  add("model-00002-of-00002.safetensors");
  EXPECT_THAT(opened(), AllOf(HasSubstr("TZE-ENV-001"), HasSubstr("but not their index"),
                              HasSubstr("model-00001-of-00002.safetensors")));
  add("diffusion_pytorch_model.safetensors.index.fp16.json");
  EXPECT_EQ(opened(), "diffusion_pytorch_model.safetensors.index.fp16.json");
  std::filesystem::remove(room / "m/diffusion_pytorch_model.safetensors.index.fp16.json");
  add("model.safetensors.index.json");
  EXPECT_EQ(opened(), "model.safetensors.index.json");
  // What transformers would read.
  add("consolidated.safetensors");
  EXPECT_EQ(opened(), "model.safetensors.index.json");
  add("model.tensors");
  EXPECT_THAT(opened(), AllOf(HasSubstr("error TZE-USE-001: the directory contains 3 models"),
                              HasSubstr("consolidated.safetensors"), HasSubstr("model.tensors")));
}

// A cache of downloads has links with the names, and files that are called after their digests.
TEST(ModelFile, ACacheOfDownloadsIsRead) {
  const test::TestDirectory room;
  const auto make = [&](const std::string& blob, const std::string& name, std::span<const std::byte> content) {
    std::filesystem::create_directories(room / "blobs");
    std::filesystem::create_directories(room / "snapshots/main");
    test::write_whole(room / ("blobs/" + blob), content);
    std::filesystem::create_symlink("../../blobs/" + blob, room / ("snapshots/main/" + name));
  };
  const std::string shard = "model-00001-of-00001.safetensors";
  make("aa", shard, one_tensor());
  make("bb", "model.safetensors.index.json", as_bytes(R"({"weight_map": {"w": ")" + shard + R"("}})"));
  EXPECT_EQ(tensors_in(room / "snapshots/main"), 1U);
  EXPECT_EQ(tensors_in(room / "snapshots/main/model.safetensors.index.json"), 1U);
  EXPECT_EQ(tensors_in(room / "blobs/aa"), 1U);
  // The index is known without its name, and its shards lie elsewhere.
  EXPECT_THAT(message_of([&] { tensors_in(room / "blobs/bb"); }), HasSubstr("TZE-ENV-001: " + shard));
}

// Every case of both formats: the content decides for what the case is about, valid files are read, and the others
// break the rule that they broke.
TEST(ModelFile, NoCaseIsTakenForAnotherFormat) {
  std::size_t valid = 0, invalid = 0;
  for (const auto& test : test::manifest().at("cases")) {
    const std::string name = test::corpus_directory() + test.at("path").get<std::string>();
    SCOPED_TRACE(name);
    ModelFile model = open_model_file(name);
    EXPECT_EQ(model.format, ModelFormat::kTensors);
    const auto by_name = test::caught([&] { Reader::open(name, test::read_options(test)); });
    const auto by_content =
        test::caught([&] { Reader::open(std::move(model.file), model.file_name, test::read_options(test)); });
    EXPECT_EQ(by_content, by_name);
    if (test.at("verdict") == "valid") {
      EXPECT_EQ(by_content, test::Caught());
    }
    ++(by_content.code ? invalid : valid);
  }
  EXPECT_GT(valid, 300U);
  EXPECT_GT(invalid, 300U);

  const std::string directory = std::string(std::getenv("TZMARK_SOURCE_DIR")) + "/reference/safetensors/cases/";
  const auto cases =
      nlohmann::json::parse(test::read_source_file("reference/safetensors/cases/manifest.json"))["cases"];
  for (const auto& test : cases) {
    const std::string name = directory + test["path"].get<std::string>();
    SCOPED_TRACE(name);
    ModelFile model = open_model_file(name);
    EXPECT_EQ(model.format, ModelFormat::kSafetensors);
    const std::string message = message_of([&] { SafetensorsReader::open(std::move(model.file), model.file_name); });
    EXPECT_EQ(message, message_of([&] { SafetensorsReader::open(name); }));
    if (test["verdict"] == "valid") {
      EXPECT_EQ(message, "no error");
    }
  }
  EXPECT_GT(cases.size(), 900U);
}

}  // namespace
}  // namespace tzmark
