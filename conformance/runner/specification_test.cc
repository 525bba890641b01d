// Tests of how specifications become files.
#include "runner/specification.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "runner/errors.h"
#include "runner/scratch_directory.h"
#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

TEST(DataOfRecipe, HexAndStreams) {
  EXPECT_EQ(data_of_recipe({{"hex", "00ff7f"}}), std::string("\x00\xff\x7f", 3));
  const std::string stream = data_of_recipe({{"stream", "seed"}, {"length", 70}});
  ASSERT_EQ(stream.size(), 70u);
  EXPECT_EQ(stream.substr(0, 32), sha256_digest("seed:0"));
  EXPECT_EQ(stream.substr(32, 32), sha256_digest("seed:1"));
  EXPECT_EQ(stream.substr(64), sha256_digest("seed:2").substr(0, 6));
  EXPECT_EQ(data_of_recipe({{"stream", "seed"}, {"length", 0}}), "");
  EXPECT_THROW(data_of_recipe({{"hex", "0"}}), EnvironmentError);
  EXPECT_THROW(data_of_recipe({{"hex", "0g"}}), EnvironmentError);
}

TEST(WriteSpecification, NamesDataFilesAndDropsTheRecipes) {
  const ScratchDirectory directory;
  const Json specification = {{"layout", "auto"},
                              {"data", {{"a", {{"hex", "0102"}}}}},
                              {"tensors",
                               {{{"path", {"w"}}, {"data", {{"of", "a"}, {"offset", 1}, {"length", 1}}}},
                                {{"path", {"m"}}, {"data", nullptr}}}}};
  const Json written = read_json(write_specification(specification, directory.path()));
  EXPECT_FALSE(written.contains("data"));
  EXPECT_EQ(written["layout"], "auto");
  EXPECT_TRUE(written["tensors"][1]["data"].is_null());
  const Json& data = written["tensors"][0]["data"];
  EXPECT_EQ(data["offset"], 1);
  std::ifstream file(data["file"].get<std::string>(), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "\x01\x02");
  Json unnamed = specification;
  unnamed["tensors"][0]["data"]["of"] = "b";
  EXPECT_THROW(write_specification(unnamed, directory.path()), EnvironmentError);
  EXPECT_THROW(write_specification(Json::object(), directory.path()), EnvironmentError);
}

TEST(ScratchDirectory, IsGoneUnlessKept) {
  std::filesystem::path gone;
  {
    const ScratchDirectory directory;
    gone = directory.path();
    const ScratchDirectory kept(gone / "kept");
    EXPECT_NO_THROW(ScratchDirectory(gone / "kept")) << "a case may be run again";
    std::ofstream(gone / "file") << "content";
    EXPECT_THROW(ScratchDirectory(gone / "file"), EnvironmentError);
  }
  EXPECT_FALSE(std::filesystem::exists(gone));
}

}  // namespace
}  // namespace tzmark::conformance
