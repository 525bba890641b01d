// Files that a group of ranks writes together: equal to those of one process, complete or not there, and one error on
// every rank when something fails on one of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "codec/rank_report.h"
#include "testing/files/path_test.h"
#include "testing/files/tensors_files.h"
#include "testing/files/threads_group.h"
#include "tzmark/group.h"

namespace tzmark {
namespace {

using test::Content;
using test::read_whole;
using test::ThreadsGroup;

// Tensors with headers and data on common pages, and some that have several pieces.
Content some_content() {
  Content content;
  for (std::size_t i = 0; i < 40; ++i) content.add({"small", i}, "float32", {i % 7, 3});
  content.add({"large"}, "float16", {700, 301});
  content.add({"none"}, "uint8", {0});
  content.add({"larger"}, "uint8", {1'000'003});
  for (std::size_t i = 0; i < 9; ++i) content.add({"end", i}, "int16", {1 + i});
  return content;
}

WriteOptions options_of(Layout layout) {
  WriteOptions options;
  options.layout = layout;
  options.piece_bytes = 64 << 10;
  options.threads = 2;
  return options;
}

std::set<std::string> messages_of(const std::vector<std::exception_ptr>& thrown) {
  std::set<std::string> messages;
  for (const std::exception_ptr& one : thrown) messages.insert(one ? as_error(one).message() : "none");
  return messages;
}

class GroupWriteTest : public testing::Test {
 protected:
  // What each rank threw.
  std::vector<std::exception_ptr> write(ThreadsGroup& group, const WriteOptions& options) {
    return group.run([&](Group& rank) {
      const MemorySource source = content_.source();
      write_together(file_, content_.table, share_of(content_.table, rank.rank(), rank.size()), source, rank, options);
    });
  }

  const Content content_ = some_content();
  const test::TestDirectory directory_;
  const std::string file_ = directory_ / "model.tensors";
};

TEST_F(GroupWriteTest, EqualsTheFileOfOneProcess) {
  for (const LayoutTraits& traits : kLayoutTraits) {
    if (traits.must_be_encrypted) continue;
    const WriteOptions options = options_of(traits.layout);
    const std::vector<std::byte> expected = content_.write(options);
    for (const unsigned size : {1U, 2U, 3U, 7U}) {
      ThreadsGroup group(size);
      for (const std::exception_ptr& one : write(group, options)) {
        EXPECT_EQ(one, nullptr) << layout_name(traits.layout) << ": " << as_error(one).what();
      }
      EXPECT_TRUE(read_whole(file_) == expected) << layout_name(traits.layout) << " by " << size;
    }
  }
  EXPECT_EQ(directory_.entries(), std::vector<std::string>{"model.tensors"});
}

TEST_F(GroupWriteTest, RangesMayBeInAnyOrderAndEmpty) {
  const std::size_t count = content_.table.size();
  const TensorRange ranges[] = {{30, count}, {0, 0}, {0, 11}, {11, 30}, {count, count}};
  ThreadsGroup group(5);
  const auto thrown = group.run([&](Group& rank) {
    const WriteResult result = write_together(file_, content_.table, ranges[rank.rank()], content_.source(), rank,
                                              options_of(Layout::kV5Segments));
    EXPECT_EQ(result.layout, Layout::kV5Segments);
    EXPECT_TRUE(result.names_durable);
    EXPECT_EQ(result.file_bytes, std::filesystem::file_size(file_));
  });
  EXPECT_EQ(messages_of(thrown), std::set<std::string>{"none"});
  EXPECT_TRUE(read_whole(file_) == content_.write(options_of(Layout::kV5Segments)));
}

TEST_F(GroupWriteTest, ARankThatFailsIsOneErrorAndTheOldFileStays) {
  // Of tensors in the middle of the file, whose rank differs with the size.
  class Failing final : public TensorSource {
   public:
    explicit Failing(const MemorySource& source) : source_(source) {}
    std::unique_ptr<TensorStream> open(std::size_t tensor) const override {
      if (tensor == 41) throw Error(ErrorCode::kReadFailed, "no such weight");
      return source_.open(tensor);
    }

   private:
    const MemorySource& source_;
  };
  test::write_whole(file_, std::as_bytes(std::span("old")));
  for (const unsigned size : {1U, 2U, 5U}) {
    ThreadsGroup group(size);
    const auto thrown = group.run([&](Group& rank) {
      const MemorySource source = content_.source();
      write_together(file_, content_.table, share_of(content_.table, rank.rank(), rank.size()), Failing(source), rank,
                     options_of(Layout::kV4));
    });
    for (const std::exception_ptr& one : thrown) {
      ASSERT_NE(one, nullptr);
      EXPECT_EQ(as_error(one).code(), ErrorCode::kReadFailed);
      EXPECT_TRUE(as_error(one).message().ends_with("no such weight"));
    }
    EXPECT_LE(messages_of(thrown).size(), 2U) << "its own, and that with the rank";
    EXPECT_EQ(read_whole(file_).size(), sizeof "old");
    EXPECT_EQ(directory_.entries().size(), 1U);
  }
}

TEST_F(GroupWriteTest, AGroupThatBreaksAtAnyMomentLeavesTheOldFileOrTheNewOne) {
  const std::vector<std::byte> expected = content_.write(options_of(Layout::kV5Segments));
  bool is_new = false;
  std::uint64_t moment = 0;
  for (; moment < 100 && !is_new; ++moment) {
    test::write_whole(file_, std::as_bytes(std::span("old")));
    ThreadsGroup group(3, {.breaks_at = moment, .breaking_rank = static_cast<unsigned>(moment % 3)});
    const auto thrown = write(group, options_of(Layout::kV5Segments));
    EXPECT_EQ(group.calls_after_throw(), 0U);
    const auto left = read_whole(file_);
    is_new = left == expected;
    if (!is_new) {
      EXPECT_EQ(left.size(), sizeof "old") << moment;
      EXPECT_EQ(messages_of(thrown).count("none"), 0U) << moment;
    }
    EXPECT_EQ(directory_.entries().size(), 1U) << moment;
  }
  EXPECT_TRUE(is_new);
  EXPECT_GT(moment, 5U);
}

// Passes everything on, and lets a test act when rank 0 has told the name of the file that it has begun.
class ActsOnName final : public Group {
 public:
  ActsOnName(Group& group, std::function<void(const std::string& name)> act) : group_(group), act_(std::move(act)) {}

  unsigned rank() const override { return group_.rank(); }
  unsigned size() const override { return group_.size(); }
  void broadcast(std::span<std::byte> memory, unsigned root) override {
    group_.broadcast(memory, root);
    const std::string name(reinterpret_cast<const char*>(memory.data()),
                           ::strnlen(reinterpret_cast<const char*>(memory.data()), memory.size()));
    if (memory.size() < kReportBytes && name.find(".tmp-") != std::string::npos) act_(name);
  }
  void all_gather(std::span<std::byte> memory) override { group_.all_gather(memory); }

 private:
  Group& group_;
  const std::function<void(const std::string&)> act_;
};

TEST_F(GroupWriteTest, WhatTakesTheNameOfTheFileThatIsBegunIsNotWrittenTo) {
  namespace fs = std::filesystem;
  const std::string victim = directory_ / "victim";
  const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> attacks = {
      {"link", [&](const std::string& name) { fs::create_symlink(victim, name); }},
      {"hard link", [&](const std::string& name) { fs::create_hard_link(victim, name); }},
      {"file", [&](const std::string& name) { fs::copy_file(victim, name); }},
      {"directory", [&](const std::string& name) { fs::create_directory(name); }},
      {"nothing", [](const std::string&) {}},
  };
  for (const auto& [what, attack] : attacks) {
    test::write_whole(victim, std::as_bytes(std::span("private")));
    fs::permissions(victim, fs::perms::owner_read | fs::perms::owner_write);
    test::write_whole(file_, std::as_bytes(std::span("old")));
    ThreadsGroup group(3);
    const auto thrown = group.run([&](Group& rank) {
      const MemorySource source = content_.source();
      ActsOnName acting(rank, [&](const std::string& name) {
        if (rank.rank() != 2) return;
        // The file of rank 0 goes on under another name, so that its inode is not given to the next one.
        fs::rename(directory_ / name, directory_ / "away");
        attack(directory_ / name);
      });
      write_together(file_, content_.table, share_of(content_.table, rank.rank(), rank.size()), source, acting,
                     options_of(Layout::kV4));
    });
    for (const std::exception_ptr& one : thrown) {
      ASSERT_NE(one, nullptr) << what;
      EXPECT_EQ(as_error(one).code(), ErrorCode::kOpenFailed) << what << ": " << as_error(one).what();
    }
    EXPECT_EQ(read_whole(victim).size(), sizeof "private") << what;
    EXPECT_EQ(read_whole(file_).size(), sizeof "old") << what;
    for (const auto& entry : fs::directory_iterator(directory_.name())) fs::remove_all(entry);
  }
}

TEST_F(GroupWriteTest, WhatDoesNotFitTogetherIsRefusedOnAllRanks) {
  const std::size_t count = content_.table.size();
  const std::vector<std::pair<std::string, std::function<void(Group&)>>> wrong = {
      {"overlap",
       [&](Group& rank) {
         write_together(file_, content_.table, {0, count}, content_.source(), rank, options_of(Layout::kV4));
       }},
      {"a tensor is left out",
       [&](Group& rank) {
         const TensorRange own = rank.rank() == 0 ? TensorRange{0, 5} : TensorRange{6, count};
         write_together(file_, content_.table, own, content_.source(), rank, options_of(Layout::kV4));
       }},
      {"the last one is",
       [&](Group& rank) {
         const TensorRange own = rank.rank() == 0 ? TensorRange{0, 5} : TensorRange{5, count - 1};
         write_together(file_, content_.table, own, content_.source(), rank, options_of(Layout::kV4));
       }},
      {"beyond the end",
       [&](Group& rank) {
         const TensorRange own = rank.rank() == 0 ? TensorRange{0, 5} : TensorRange{5, count + 1};
         write_together(file_, content_.table, own, content_.source(), rank, options_of(Layout::kV4));
       }},
      {"reversed",
       [&](Group& rank) {
         const TensorRange own = rank.rank() == 0 ? TensorRange{5, 0} : TensorRange{5, count};
         write_together(file_, content_.table, own, content_.source(), rank, options_of(Layout::kV4));
       }},
      {"other layouts",
       [&](Group& rank) {
         const TensorRange own = share_of(content_.table, rank.rank(), 2);
         write_together(file_, content_.table, own, content_.source(), rank,
                        options_of(rank.rank() == 0 ? Layout::kV4 : Layout::kV2));
       }},
      {"other tensors",
       [&](Group& rank) {
         Content content = some_content();
         if (rank.rank() == 1) content.add({"more"}, "uint8", {1});
         write_together(file_, content.table, share_of(content.table, rank.rank(), 2), content.source(), rank,
                        options_of(Layout::kV4));
       }},
      {"other module indices",
       [&](Group& rank) {
         TensorTable table;
         for (std::size_t i = 0; i < count; ++i) {
           const TensorInfo tensor = content_.table[i];
           const auto index = static_cast<std::uint16_t>(tensor.module_index + (i == 50 ? rank.rank() : 0));
           table.add(tensor.path(), tensor.kind, tensor.dtype, tensor.shape, false, index);
         }
         write_together(file_, table, share_of(table, rank.rank(), 2), content_.source(), rank,
                        options_of(Layout::kV4));
       }},
      {"other wishes for a file that is there",
       [&](Group& rank) {
         WriteOptions options = options_of(Layout::kV4);
         if (rank.rank() == 1) options.existing = AtomicFile::Existing::kRefuse;
         write_together(file_, content_.table, share_of(content_.table, rank.rank(), 2), content_.source(), rank,
                        options);
       }},
      {"other hashes",
       [&](Group& rank) {
         WriteOptions options = options_of(Layout::kV4);
         options.sha256 = rank.rank() == 1;
         write_together(file_, content_.table, share_of(content_.table, rank.rank(), 2), content_.source(), rank,
                        options);
       }},
      {"encryption",
       [&](Group& rank) {
         WriteOptions options = options_of(Layout::kV4);
         options.encrypt = test::with_key();
         write_together(file_, content_.table, share_of(content_.table, rank.rank(), 2), content_.source(), rank,
                        options);
       }},
      {"detached data", [&](Group& rank) {
         WriteOptions options = options_of(Layout::kV5Segments);
         options.detached_data = true;
         write_together(file_, content_.table, share_of(content_.table, rank.rank(), 2), content_.source(), rank,
                        options);
       }}};
  for (const auto& [what, action] : wrong) {
    ThreadsGroup group(2);
    for (const std::exception_ptr& one : group.run(action)) {
      ASSERT_NE(one, nullptr) << what;
      EXPECT_EQ(as_error(one).code(), ErrorCode::kUsage) << what << ": " << as_error(one).what();
    }
    EXPECT_TRUE(directory_.entries().empty()) << what;
  }
}

TEST(ShareOf, DividesByBytes) {
  const Content content = some_content();
  for (const unsigned size : {1U, 2U, 3U, 10U, 100U}) {
    std::size_t end = 0;
    for (unsigned rank = 0; rank < size; ++rank) {
      const TensorRange share = share_of(content.table, rank, size);
      if (share.first == share.end) continue;
      EXPECT_EQ(share.first, end);
      end = share.end;
    }
    EXPECT_EQ(end, content.table.size()) << size;
  }
  Content even;
  for (std::size_t i = 0; i < 12; ++i) even.add({i}, "uint8", {100});
  EXPECT_EQ(share_of(even.table, 1, 4), (TensorRange{3, 6}));
  Content empty;
  for (std::size_t i = 0; i < 3; ++i) empty.add({i}, "uint8", {0});
  EXPECT_EQ(share_of(empty.table, 0, 4), (TensorRange{0, 3}));
  EXPECT_EQ(share_of(empty.table, 3, 4).first, share_of(empty.table, 3, 4).end);
}

// Ranks share pages at the ends of their ranges, which paths that bypass the cache write last.
class GroupWritePathTest : public test::PathTest {};
INSTANTIATE_TEST_SUITE_P(EveryPath, GroupWritePathTest, ::testing::ValuesIn(test::disk_paths()), test::test_name);

TEST_P(GroupWritePathTest, EqualsTheFileOfOneProcess) {
  const Content content = some_content();
  for (const Layout layout : {Layout::kV4, Layout::kV5Segments}) {
    WriteOptions options = options_of(layout);
    const std::vector<std::byte> expected = content.write(options);
    options.io_path = GetParam();
    const std::string name = new_name();
    ThreadsGroup group(4);
    const auto thrown = group.run([&](Group& rank) {
      write_together(name, content.table, share_of(content.table, rank.rank(), 4), content.source(), rank, options);
    });
    EXPECT_EQ(messages_of(thrown), std::set<std::string>{"none"});
    EXPECT_TRUE(read_whole(name) == expected) << layout_name(layout);
    std::filesystem::remove(name);
  }
}

}  // namespace
}  // namespace tzmark
