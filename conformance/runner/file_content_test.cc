// Tests of whole files, and of where one can be written.
#include "runner/file_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runner/errors.h"
#include "runner/scratch_directory.h"

namespace tzmark::conformance {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// What is wrong with a place to write to; empty if nothing is.
template <typename Check>
std::string refusal(const Check& check, const fs::path& path) {
  try {
    check(path);
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "";
}

TEST(ReadFile, LinksOfTheUserAreFollowed) {
  const ScratchDirectory directory;
  const fs::path file = directory.path() / "file", link = directory.path() / "link";
  write_file(file, "content");
  fs::create_symlink(file, link);
  EXPECT_EQ(read_named_file(link).size(), 7u);
  EXPECT_EQ(read_file(file, 7).size(), 7u);
  EXPECT_THROW(read_file(link), EnvironmentError) << "what an adapter leaves has to be a file";
  EXPECT_THROW(read_named_file(link, 6), EnvironmentError);
  EXPECT_THROW(read_named_file(directory.path()), EnvironmentError);
  EXPECT_THROW(read_named_file(directory.path() / "none"), EnvironmentError);
}

TEST(ReadFile, AFileLargerThanTheMemoryIsRefused) {
  const ScratchDirectory directory;
  const fs::path file = directory.path() / "file";
  write_file(file, "content");
  std::error_code too_large;
  fs::resize_file(file, std::uintmax_t{1} << 43, too_large);
  if (too_large) GTEST_SKIP() << "no files of 8 TiB here: " << too_large.message();
  EXPECT_THAT(refusal([](const fs::path& name) { read_file(name); }, file),
              HasSubstr("has 8796093022208 bytes, and this machine has memory for "));
}

TEST(CheckOutput, OfFiles) {
  const ScratchDirectory directory;
  const fs::path file = directory.path() / "file";
  EXPECT_EQ(refusal(check_output_file, file), "");
  EXPECT_FALSE(fs::exists(file)) << "it creates nothing";
  std::ofstream(file) << "content";
  EXPECT_EQ(refusal(check_output_file, file), "");
  EXPECT_EQ(fs::file_size(file), 7u) << "it changes nothing";
  EXPECT_EQ(refusal(check_output_file, "/dev/null"), "");
  EXPECT_EQ(refusal(check_output_file, "a-name-in-the-working-directory"), "");
  EXPECT_THAT(refusal(check_output_file, directory.path()), EndsWith(": cannot be written: Is a directory"));
  EXPECT_THAT(refusal(check_output_file, file / "below"), EndsWith("file/below: cannot be written: Not a directory"));
  EXPECT_THAT(refusal(check_output_file, directory.path() / "none/file"),
              EndsWith("none/file: cannot be written: No such file or directory"));
}

TEST(CheckOutput, OfDirectories) {
  const ScratchDirectory directory;
  EXPECT_EQ(refusal(check_output_directory, directory.path()), "");
  EXPECT_EQ(refusal(check_output_directory, directory.path() / "one/two"), "");
  EXPECT_FALSE(fs::exists(directory.path() / "one"));
  EXPECT_EQ(refusal(check_output_directory, "a-name-in-the-working-directory"), "");
  std::ofstream(directory.path() / "file") << "content";
  for (const char* name : {"file", "file/one", "file/one/two"}) {
    EXPECT_THAT(refusal(check_output_directory, directory.path() / name),
                EndsWith(": cannot be written: Not a directory"));
  }
}

}  // namespace
}  // namespace tzmark::conformance
