// A v5-segments file in a directory of its own, and the calls that change it. For tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codec/undo_journal.h"
#include "testing/files/tensors_files.h"
#include "testing/files/test_directory.h"
#include "tzmark/edit.h"

namespace tzmark::test {

// More than is free in any segment of the files here.
inline const std::string kLongName = "long." + std::string(9'000, 'x');

class EditTest : public ::testing::Test {
 protected:
  // A file of a content in v5-segments, or in another layout.
  void put(const Content& content, WriteOptions options = {}) {
    if (!options.layout) options.layout = Layout::kV5Segments;
    write_whole(name_, content.write(options));
  }
  Bytes bytes() const { return read_whole(name_); }
  Reader reader(ReadOptions options = {}) const { return Reader::open(name_, std::move(options)); }
  Growth append(const Content& content, WriteOptions options = {}) {
    return append_tensors(name_, content.table, content.source(), std::move(options));
  }
  Growth edit(const std::vector<TensorEdit>& edits, EditOptions options = {}) {
    return edit_tensors(name_, edits, std::move(options));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    const Reader opened = reader();
    for (std::size_t i = 0; i < opened.tensors().size(); ++i) list.emplace_back(opened.tensors()[i].name);
    return list;
  }

  // The action fails, and the file and its directory are what they were.
  template <typename Action>
  void expect_refused(ErrorCode code, Action&& action) {
    const Bytes before = bytes();
    EXPECT_EQ(error_of(action), code);
    EXPECT_EQ(bytes(), before);
    EXPECT_THAT(directory_.entries(), ::testing::ElementsAre("file.tensors"));
  }

  const test::TestDirectory directory_;
  const std::string name_ = directory_ / "file.tensors";
  const std::string journal_ = undo_journal_file_name(name_);
};

inline Content one(const Path& path, std::uint64_t data_bytes = 5, Kind kind = Kind::kStateDict) {
  Content content;
  content.add(path, "uint8", {data_bytes}, false, kind);
  return content;
}

}  // namespace tzmark::test
