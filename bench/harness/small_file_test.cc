// Values, numbers, labels and choices in small files, and malformed input.
#include "harness/small_file.h"

#include <gtest/gtest.h>

#include "testing/files/test_directory.h"

namespace tzmark::bench {
namespace {

std::string file_of(const test::TestDirectory& directory, const std::string& name, std::string_view text) {
  test::write_whole(directory / name, std::as_bytes(std::span(text)));
  return directory / name;
}

TEST(SmallFile, ValueAndNumber) {
  const test::TestDirectory directory;
  const std::string number = file_of(directory, "number", "256\n");
  EXPECT_EQ(read_value(number), "256");
  EXPECT_EQ(read_number(number), 256u);
  EXPECT_EQ(read_text(number), "256\n");
  EXPECT_FALSE(read_number(file_of(directory, "word", "none\n")));
  EXPECT_FALSE(read_number(file_of(directory, "both", "12 kB\n")));
  EXPECT_FALSE(read_number(file_of(directory, "empty", "")));
  EXPECT_FALSE(read_value(directory / "absent"));
}

TEST(SmallFile, Labelled) {
  const std::string text = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz: fast\nmodel\t\t: 85\nempty:\nlast: one";
  EXPECT_EQ(labelled(text, "model name"), "Some CPU @ 2.0GHz: fast");
  EXPECT_EQ(labelled(text, "model"), "85");
  EXPECT_EQ(labelled(text, "empty"), "");
  EXPECT_EQ(labelled(text, "last"), "one");
  EXPECT_FALSE(labelled(text, "name"));
  EXPECT_FALSE(labelled("", "name"));
}

TEST(SmallFile, Chosen) {
  EXPECT_EQ(chosen("always [madvise] never"), "madvise");
  EXPECT_EQ(chosen("[none]"), "none");
  EXPECT_FALSE(chosen("none"));
  EXPECT_FALSE(chosen("]["));
}

}  // namespace
}  // namespace tzmark::bench
