// Files that a group of ranks reads together: every rank has all of it, storage is read once, and no rank hangs or
// goes on alone when something fails on one of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "codec/rank_report.h"
#include "testing/caught.h"
#include "testing/files/corpus.h"
#include "testing/files/memory_file.h"
#include "testing/files/path_test.h"
#include "testing/files/tensors_files.h"
#include "testing/files/threads_group.h"
#include "tzmark/group.h"

namespace tzmark {
namespace {

using test::ThreadsGroup;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kSmallChunk = 4096;
constexpr std::size_t kAmpleBytes = 64 << 20;
constexpr GroupRead kBothWays[] = {GroupRead::kBroadcast, GroupRead::kGather};

GroupReadOptions group_options(GroupRead how, std::size_t chunk_bytes, std::size_t memory_bytes_max = kAmpleBytes) {
  return {.how = how, .chunk_bytes = chunk_bytes, .memory_bytes_max = memory_bytes_max};
}

// Files by name, of one rank, that count what is read and fail at an offset.
class RankFiles {
 public:
  class Opened;

  void add(const std::string& name, Bytes bytes) { files_[name] = std::move(bytes); }
  std::unique_ptr<File> open(const std::string& name);
  std::uint64_t bytes_read() const { return bytes_read_; }

  std::uint64_t fails_at = ~std::uint64_t{0};

 private:
  std::map<std::string, Bytes> files_;
  std::atomic<std::uint64_t> bytes_read_ = 0;
};

class RankFiles::Opened final : public File {
 public:
  Opened(RankFiles& files, const Bytes& bytes) : files_(files), bytes_(bytes) {}

  std::string_view io_path() const override { return "counted"; }
  std::uint64_t size() const override { return bytes_.size(); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    if (offset >= bytes_.size()) return 0;
    const std::size_t count = std::min<std::size_t>(out.size, bytes_.size() - offset);
    if (files_.fails_at >= offset && files_.fails_at < offset + count) {
      throw Error(ErrorCode::kReadFailed, "bad sector", files_.fails_at);
    }
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), count, out.data);
    files_.bytes_read_ += count;
    return count;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer) override { throw Error(ErrorCode::kWriteFailed, "read only"); }
  void sync_all() override {}

 private:
  RankFiles& files_;
  const Bytes& bytes_;
};

std::unique_ptr<File> RankFiles::open(const std::string& name) {
  const auto found = files_.find(name);
  if (found == files_.end()) throw Error(ErrorCode::kOpenFailed, "no such file");
  return std::make_unique<Opened>(*this, found->second);
}

// What each rank of a group has read together.
struct Outcome {
  std::vector<std::vector<Bytes>> tensors;  // by rank
  std::vector<GroupReadCounts> counts;
  std::vector<std::exception_ptr> thrown;

  // The messages of what the ranks threw.
  std::vector<std::string> messages() const {
    std::vector<std::string> all;
    for (const std::exception_ptr& exception : thrown) all.push_back(exception ? as_error(exception).message() : "");
    return all;
  }
  std::set<std::optional<ErrorCode>> codes() const {
    std::set<std::optional<ErrorCode>> all;
    for (const std::exception_ptr& exception : thrown) {
      all.insert(exception ? std::optional(as_error(exception).code()) : std::nullopt);
    }
    return all;
  }
};

std::vector<Bytes> copies_of(const LoadedTensors& loaded) {
  std::vector<Bytes> copies;
  for (std::size_t i = 0; i < loaded.size(); ++i) copies.emplace_back(loaded[i].begin(), loaded[i].end());
  return copies;
}

class TogetherTest : public ::testing::Test {
 protected:
  // Gives each rank these files.
  void set_up(unsigned ranks, const Bytes& bytes, const Bytes& data = {}) {
    files_.clear();
    for (unsigned rank = 0; rank < ranks; ++rank) {
      files_.push_back(std::make_unique<RankFiles>());
      files_.back()->add("model", bytes);
      if (!data.empty()) files_.back()->add("data", data);
    }
  }

  // use: called after each load; may throw.
  Outcome load(
      ThreadsGroup& group, const GroupReadOptions& options,
      const std::function<ReadOptions()>& read_options = [] { return ReadOptions(); },
      const std::function<void(unsigned rank)>& use = {}) {
    Outcome outcome;
    outcome.tensors.resize(files_.size());
    outcome.counts.resize(files_.size());
    outcome.thrown = group.run([&](Group& of_rank) {
      const unsigned rank = of_rank.rank();
      outcome.counts[rank] = read_together(
          "model", [&](const std::string& name) { return files_[rank]->open(name); }, of_rank, options, read_options(),
          [&](const Reader& reader) {
            outcome.tensors[rank] = copies_of(reader.load(Verification::kAll, HostMemory::Pages::kSmall));
            if (use) use(rank);
          });
    });
    return outcome;
  }
  Outcome load(
      const GroupReadOptions& options, const std::function<ReadOptions()>& read_options = [] { return ReadOptions(); },
      const std::function<void(unsigned rank)>& use = {}) {
    ThreadsGroup group(static_cast<unsigned>(files_.size()));
    return load(group, options, read_options, use);
  }

  static void expect_all(const Outcome& outcome, const std::vector<Bytes>& expected) {
    for (std::size_t rank = 0; rank < outcome.tensors.size(); ++rank) {
      ASSERT_EQ(outcome.thrown[rank], nullptr) << rank << ": " << outcome.messages()[rank];
      ASSERT_EQ(outcome.tensors[rank].size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(outcome.tensors[rank][i] == expected[i]) << "tensor " << i << " of rank " << rank;
      }
    }
  }

  std::vector<std::unique_ptr<RankFiles>> files_;
};

// Tensors of several pieces and small ones, of which none ends where a chunk does.
constexpr std::size_t kPieceBytes = 64 << 10;
test::Content large_and_small() {
  test::Content content;
  unsigned number = 0;
  for (const std::uint64_t bytes : {7, 375'001, 8'701, 0, 312'500, 1, 275'003, 1'023, 262'500, 8'193}) {
    content.add({"t", std::uint64_t{number++}}, "uint8", {bytes});
  }
  return content;
}

ReadOptions in_threads(unsigned threads, bool with_key) {
  ReadOptions options = with_key ? test::key_options() : ReadOptions();
  options.threads = threads;
  options.piece_bytes = kPieceBytes;
  return options;
}

TEST_F(TogetherTest, EveryValidFileOfTheCorpus) {
  std::set<Layout> layouts;
  unsigned number = 0;
  for (const nlohmann::json& test : test::manifest().at("cases")) {
    if (test.at("verdict") != "valid" || test.contains("data_path")) continue;
    SCOPED_TRACE(test.at("id").get<std::string>());
    const std::string name = test::corpus_directory() + test.at("path").get<std::string>();
    if (std::filesystem::file_size(name) > (100 << 10)) continue;
    std::optional<Reader> alone;
    try {
      alone.emplace(test::open_case(test));
    } catch (const Error&) {
      continue;  // detached data
    }
    layouts.insert(alone->layout());
    const std::vector<Bytes> expected = copies_of(alone->load());
    // Every case with a few of the combinations, which change from case to case.
    const unsigned ranks = std::array{1U, 2U, 3U, 5U}[number % 4];
    const std::size_t memory = number % 3 == 0 ? 2 * kSmallChunk : kAmpleBytes;
    const std::size_t chunk = number % 5 == 0 ? 64 << 10 : kSmallChunk;
    ++number;
    set_up(ranks, test::read_whole(name));
    const auto options_of_case = [&] {
      ReadOptions options = test::read_options(test);
      options.threads = 2;
      return options;
    };
    expect_all(load(group_options(kBothWays[number / 2 % 2], chunk, memory), options_of_case), expected);
  }
  EXPECT_EQ(layouts.size(), kLayouts.size());
  EXPECT_GT(number, 100U);
}

TEST_F(TogetherTest, EveryRankHasEveryByte) {
  const test::Content content = large_and_small();
  for (const Layout layout : {Layout::kV4, Layout::kV5HeadersFirst, Layout::kV5Segments}) {
    // Messages that are shorter than a piece, and longer ones, which are read twice.
    for (const std::uint64_t message_bytes : {std::uint64_t{0}, std::uint64_t{16'384}, std::uint64_t{65'600}}) {
      WriteOptions writing;
      writing.layout = layout;
      if (message_bytes > 0) writing.encrypt = test::with_key(message_bytes);
      const Bytes bytes = content.write(writing);
      for (const unsigned ranks : {1U, 2U, 3U, 5U}) {
        for (const GroupRead how : kBothWays) {
          for (const std::size_t chunk : {kSmallChunk, std::size_t{1} << 20}) {
            SCOPED_TRACE(fmt::format("{}, messages of {}, {} ranks, chunks of {}", layout_name(layout), message_bytes,
                                     ranks, chunk));
            set_up(ranks, bytes);
            const Outcome outcome = load(group_options(how, chunk), [&] { return in_threads(2, message_bytes > 0); });
            expect_all(outcome, content.data);
          }
        }
      }
    }
  }
}

// Storage is read once, whatever the number of ranks, and what each has read is what it counted.
TEST_F(TogetherTest, StorageIsReadOnce) {
  test::Content content;
  for (std::uint64_t i = 0; i < 40; ++i)
    content.add({"t", i}, "uint8", {i % 2 == 0 ? std::uint64_t{200'001} : std::uint64_t{900}});
  constexpr unsigned kRanks = 4;
  constexpr std::size_t kChunk = 64 << 10;
  // Index and headers of these tensors, more than once.
  constexpr std::uint64_t kLittle = 32 << 10;
  for (const Layout layout : {Layout::kV2, Layout::kV5HeadersFirst, Layout::kV5Segments, Layout::kV5LongDims}) {
    WriteOptions writing;
    writing.layout = layout;
    const Bytes bytes = content.write(writing);
    for (const GroupRead how : kBothWays) {
      SCOPED_TRACE(fmt::format("{}, {}", layout_name(layout), static_cast<int>(how)));
      set_up(kRanks, bytes);
      const Outcome outcome = load(group_options(how, kChunk), [] { return in_threads(2, false); });
      expect_all(outcome, content.data);
      std::uint64_t sum = 0;
      for (unsigned rank = 0; rank < kRanks; ++rank) {
        const GroupReadCounts& counts = outcome.counts[rank];
        EXPECT_EQ(counts.storage_bytes, files_[rank]->bytes_read());
        EXPECT_EQ(counts.reread_bytes, 0U);
        EXPECT_LT(counts.opening_bytes, kLittle);
        EXPECT_GT(counts.opening_bytes, 0U);
        const bool reads_share = how == GroupRead::kGather;
        const std::uint64_t share = reads_share ? bytes.size() / kRanks + kChunk : rank == 0 ? bytes.size() : 0;
        EXPECT_LE(counts.storage_bytes, share + kLittle);
        EXPECT_GE(counts.sent_bytes + counts.received_bytes, bytes.size() - kLittle);
        sum += counts.storage_bytes;
      }
      EXPECT_LE(sum, bytes.size() + kRanks * kLittle);
    }
  }
}

TEST_F(TogetherTest, DetachedDataIsExchanged) {
  const test::Content content = large_and_small();
  WriteOptions writing;
  writing.layout = Layout::kV5Segments;
  writing.detached_data = true;
  MemoryFile head, data;
  write_tensors(head, content.table, content.source(), writing, &data);
  set_up(3, head.content(), data.content());
  const Outcome outcome = load(group_options(GroupRead::kGather, 64 << 10), [] {
    ReadOptions options;
    options.data_file_name = "data";
    return options;
  });
  expect_all(outcome, content.data);
  std::uint64_t sum = 0;
  for (const auto& files : files_) sum += files->bytes_read();
  EXPECT_LE(sum, data.size() + 10 * head.size());
}

// A ring of two chunks holds less than the tensors that a thread hashes side by side.
TEST_F(TogetherTest, TinyRingIsEnough) {
  const test::Content content = large_and_small();
  const Bytes bytes = content.write({});
  for (const GroupRead how : kBothWays) {
    set_up(3, bytes);
    expect_all(load(group_options(how, 64 << 10, 0), [] { return in_threads(3, false); }), content.data);
  }
}

TEST_F(TogetherTest, FailedReadOfOneRankIsThrownByAll) {
  constexpr std::size_t kChunk = 64 << 10;
  const test::Content content = large_and_small();
  const Bytes bytes = content.write({});
  for (const std::uint64_t offset : {std::uint64_t{600'000}, std::uint64_t{900'000}, bytes.size() - 100}) {
    for (const std::size_t memory : {std::size_t{0}, kAmpleBytes}) {
      SCOPED_TRACE(fmt::format("at {}, {} bytes of memory", offset, memory));
      const auto owner = static_cast<unsigned>(offset / kChunk % 3);
      set_up(3, bytes);
      files_[owner]->fails_at = offset;
      const Outcome outcome = load(group_options(GroupRead::kGather, kChunk, memory));
      EXPECT_EQ(outcome.messages(), std::vector<std::string>(3, fmt::format("rank {}: bad sector", owner)));
      EXPECT_EQ(outcome.codes(), (std::set<std::optional<ErrorCode>>{ErrorCode::kReadFailed}));
      for (const auto& exception : outcome.thrown) EXPECT_EQ(as_error(exception).offset(), offset);
    }
    // What a rank need not read does not concern it.
    set_up(3, bytes);
    files_[(offset / kChunk + 1) % 3]->fails_at = offset;
    expect_all(load(group_options(GroupRead::kGather, kChunk)), content.data);
  }
}

struct OwnException : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST_F(TogetherTest, FailureOfOneRankAloneIsThrownByAll) {
  set_up(4, large_and_small().write({}));
  const Outcome outcome = load(
      group_options(GroupRead::kGather, 64 << 10), [] { return ReadOptions(); },
      [](unsigned rank) {
        if (rank == 1) throw OwnException("no room left");
        if (rank == 3) throw Error(ErrorCode::kResource, "too slow", 7);
      });
  EXPECT_EQ(outcome.messages(),
            (std::vector<std::string>{"rank 1: no room left", "no room left", "rank 1: no room left", "too slow"}));
  EXPECT_THROW(std::rethrow_exception(outcome.thrown[1]), OwnException);
}

// A rank that does not read at all takes part, so that the others have their bytes.
TEST_F(TogetherTest, RankThatStopsEarlyTakesPart) {
  const Bytes bytes = large_and_small().write({});
  set_up(3, bytes);
  ThreadsGroup group(3);
  std::array<std::atomic<bool>, 3> has_all{};
  const auto thrown = group.run([&](Group& of_rank) {
    const unsigned rank = of_rank.rank();
    read_together(
        "model", [&](const std::string& name) { return files_[rank]->open(name); }, of_rank,
        group_options(GroupRead::kGather, kSmallChunk, 0), {},
        [&](const Reader& reader) {
          if (rank == 1) return;
          reader.verify();
          has_all[rank] = true;
        });
  });
  EXPECT_EQ(std::ranges::count(thrown, nullptr), 3);
  EXPECT_TRUE(has_all[0] && has_all[2]);
}

TEST_F(TogetherTest, RankThatCannotOpenTheFile) {
  const Bytes bytes = test::three_tensors().write({});
  set_up(3, bytes);
  files_[2] = std::make_unique<RankFiles>();
  const Outcome outcome = load(group_options(GroupRead::kGather, kSmallChunk));
  EXPECT_EQ(outcome.messages(),
            (std::vector<std::string>{"rank 2: no such file", "rank 2: no such file", "no such file"}));
  EXPECT_EQ(outcome.codes(), (std::set<std::optional<ErrorCode>>{ErrorCode::kOpenFailed}));
}

TEST_F(TogetherTest, OtherFilesAreRefused) {
  const Bytes bytes = test::three_tensors().write({});
  const auto expect_refused = [&](const Bytes& other, const std::string& text) {
    set_up(3, bytes);
    files_[1] = std::make_unique<RankFiles>();
    files_[1]->add("model", other);
    const Outcome outcome = load(group_options(GroupRead::kGather, kSmallChunk));
    EXPECT_EQ(outcome.codes(), (std::set<std::optional<ErrorCode>>{ErrorCode::kFileChanged}));
    for (const std::string& message : outcome.messages()) {
      EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
      EXPECT_NE(message.find(text), std::string::npos) << message;
    }
  };
  test::Content renamed;
  renamed.add({"a.weight"}, "float32", {2, 3});
  renamed.add({"c"}, "int64", {});
  renamed.add({"layers", std::uint64_t{0}, "bias"}, "uint8", {5});
  expect_refused(renamed.write({}), "differs");
  renamed.add({"more"}, "int64", {});
  expect_refused(renamed.write({}), "bytes");
}

// The same header and index, and other data: what the hashes are for.
TEST_F(TogetherTest, OtherDataOfOneRankFailsItsHashEverywhere) {
  const test::Content content = large_and_small();
  const Bytes bytes = content.write({});
  Bytes other = bytes;
  other[1'000'000] ^= std::byte{1};
  set_up(2, bytes);
  files_[1] = std::make_unique<RankFiles>();
  files_[1]->add("model", other);
  // Chunk 15 of these is rank 1's.
  const Outcome outcome = load(group_options(GroupRead::kGather, 64 << 10));
  EXPECT_EQ(outcome.codes().size(), 1U);
  EXPECT_NE(outcome.thrown[0], nullptr);
  EXPECT_EQ(as_error(outcome.thrown[0]).error_class(), ErrorClass::kFile);
  EXPECT_EQ(outcome.messages()[0], outcome.messages()[1]);
}

TEST_F(TogetherTest, GroupThatBreaksEndsEveryRank) {
  const Bytes bytes = large_and_small().write({});
  set_up(3, bytes);
  std::uint64_t all = 0;
  {
    ThreadsGroup group(3);
    load(group, group_options(GroupRead::kGather, 64 << 10));
    all = group.broadcasts();
  }
  ASSERT_GT(all, 20U);
  for (std::uint64_t at = 0; at < all; ++at) {
    SCOPED_TRACE(at);
    ThreadsGroup group(3, {.breaks_at = at, .breaking_rank = static_cast<unsigned>(at % 3)});
    const Outcome outcome = load(group, group_options(GroupRead::kGather, 64 << 10));
    for (const std::string& message : outcome.messages()) {
      EXPECT_NE(message.find("the group is broken: "), std::string::npos) << message;
    }
    EXPECT_EQ(group.calls_after_throw(), 0U);
  }
}

// The ranks do not exchange what is left of the file.
TEST_F(TogetherTest, CheckOfOneRankEndsTheExchangeOfAll) {
  class Checked final : public Group {
   public:
    Checked(Group& group, const bool& is_interrupted) : group_(group), is_interrupted_(is_interrupted) {}
    unsigned rank() const override { return group_.rank(); }
    unsigned size() const override { return group_.size(); }
    void broadcast(std::span<std::byte> memory, unsigned root) override { group_.broadcast(memory, root); }
    void all_gather(std::span<std::byte> memory) override { group_.all_gather(memory); }
    void check() override {
      if (is_interrupted_ && rank() == 1) throw OwnException("interrupted");
    }

   private:
    Group& group_;
    const bool& is_interrupted_;
  };
  set_up(3, large_and_small().write({}));
  const auto count_broadcasts = [&](bool is_interrupted, std::vector<std::exception_ptr>& thrown) {
    ThreadsGroup group(3, {.delay = std::chrono::milliseconds(1), .slow_rank = 2});
    thrown = group.run([&](Group& of_rank) {
      Checked checked(of_rank, is_interrupted);
      read_together(
          "model", [&](const std::string& name) { return files_[of_rank.rank()]->open(name); }, checked,
          group_options(GroupRead::kGather, kSmallChunk, 0), {}, [](const Reader&) {});
    });
    return group.broadcasts();
  };
  std::vector<std::exception_ptr> thrown;
  const std::uint64_t all = count_broadcasts(false, thrown);
  EXPECT_EQ(std::ranges::count(thrown, nullptr), 3);

  EXPECT_LT(count_broadcasts(true, thrown), all / 2);
  for (const std::exception_ptr& exception : thrown) {
    ASSERT_NE(exception, nullptr);
    EXPECT_NE(as_error(exception).message().find("interrupted"), std::string::npos) << as_error(exception).what();
  }
}

TEST_F(TogetherTest, SlowRankDelaysAndChangesNothing) {
  const test::Content content = large_and_small();
  set_up(3, content.write({}));
  ThreadsGroup group(3, {.delay = std::chrono::microseconds(500), .slow_rank = 2});
  const Outcome outcome = load(group, group_options(GroupRead::kBroadcast, 64 << 10, 256 << 10));
  expect_all(outcome, content.data);
}

// One file of bytes, without tensors.
class GroupFileTest : public ::testing::Test {
 protected:
  static std::unique_ptr<File> memory_file(const Bytes& bytes) { return std::make_unique<MemoryFile>(bytes); }
  static Bytes bytes_of(File& file, std::uint64_t offset, std::size_t count) {
    Bytes bytes(count);
    file.read_at(offset, std::span(bytes));
    return bytes;
  }
  Bytes part(std::uint64_t offset, std::size_t count) const {
    const auto begin = content_.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }
  static void expect_none(const std::vector<std::exception_ptr>& thrown) {
    for (const std::exception_ptr& exception : thrown) {
      EXPECT_EQ(exception, nullptr) << as_error(exception).what();
    }
  }

  const Bytes content_ = test::random_bytes(300'000, 1);
};

// Reads by two threads, forwards and backwards, what the ring has dropped and what it does not have yet.
TEST_F(GroupFileTest, ReadsInAnyOrderAreCorrect) {
  ThreadsGroup group(2);
  std::atomic<std::uint64_t> reread = 0;
  expect_none(group.run([&](Group& of_rank) {
    GroupFile file(memory_file(content_), of_rank, group_options(GroupRead::kGather, kSmallChunk, 0));
    EXPECT_EQ(bytes_of(file, 10, 100), part(10, 100));
    const FileRange all{1'001, content_.size() - 7};
    file.start({&all, 1});
    const std::jthread other([&] {
      for (std::uint64_t at = 0; at + 5'000 < content_.size(); at += 37'003) {
        EXPECT_EQ(bytes_of(file, at, 5'000), part(at, 5'000));
      }
    });
    if (of_rank.rank() == 0) {
      for (std::uint64_t at = content_.size() - 10'000; at > 100'000; at -= 50'000) {
        EXPECT_EQ(bytes_of(file, at, 10'000), part(at, 10'000));
      }
    }
    EXPECT_EQ(bytes_of(file, 0, content_.size()), content_);
    reread += file.counts().reread_bytes;
    EXPECT_EQ(file.failure(), nullptr);
  }));
  EXPECT_GT(reread, 0U);
}

TEST_F(GroupFileTest, ReadsBeyondTheEndFail) {
  ThreadsGroup group(2);
  expect_none(group.run([&](Group& of_rank) {
    GroupFile file(memory_file(content_), of_rank, {});
    const FileRange all{0, content_.size()};
    file.start({&all, 1});
    EXPECT_EQ(bytes_of(file, 0, content_.size()), content_);
    EXPECT_EQ(test::error_of([&] { bytes_of(file, content_.size() - 1, 2); }), ErrorCode::kFileChanged);
    file.finish();
    EXPECT_EQ(bytes_of(file, 5, 50), part(5, 50));
  }));
}

TEST_F(GroupFileTest, ExchangesRangesOnly) {
  ThreadsGroup group(3);
  const std::vector<FileRange> ranges{{10, 20}, {30, 5'000}, {50'001, 50'002}, {200'000, 220'000}};
  expect_none(group.run([&](Group& of_rank) {
    GroupFile file(memory_file(content_), of_rank, group_options(GroupRead::kGather, kSmallChunk));
    file.start(ranges);
    for (const FileRange& range : ranges) {
      const auto bytes = static_cast<std::size_t>(range.end - range.begin);
      EXPECT_EQ(bytes_of(file, range.begin, bytes), part(range.begin, bytes));
    }
    file.finish();
    const GroupReadCounts counts = file.counts();
    EXPECT_EQ(counts.reread_bytes, 0U);
    EXPECT_EQ(counts.chunks, 2U + 1U + 6U);
    EXPECT_LT(counts.sent_bytes + counts.received_bytes, 40'000U);
    EXPECT_EQ(bytes_of(file, 100'000, 9'999), part(100'000, 9'999));
  }));
}

TEST_F(GroupFileTest, KeepsARange) {
  ThreadsGroup group(3);
  expect_none(group.run([&](Group& of_rank) {
    auto own = std::make_unique<test::CountingFile>(content_);
    const test::CountingFile& counting = *own;
    GroupFile file(std::move(own), of_rank, group_options(GroupRead::kGather, kSmallChunk));
    file.keep({1'000, 100'001});
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(bytes_of(file, 1'000, 99'001), part(1'000, 99'001));
    EXPECT_EQ(counting.bytes_read(), of_rank.rank() == 0 ? 99'001U : 0U);
    EXPECT_EQ(file.counts().storage_bytes, counting.bytes_read());
    EXPECT_EQ(bytes_of(file, 0, content_.size()), content_);
  }));
}

TEST_F(GroupFileTest, OtherOptionsOrRangesAreWrongUsageOnAllRanks) {
  for (const bool other_ranges : {false, true}) {
    ThreadsGroup group(3);
    const auto thrown = group.run([&](Group& of_rank) {
      const bool is_other = of_rank.rank() == 2;
      GroupFile file(memory_file(content_), of_rank,
                     group_options(GroupRead::kGather, is_other && !other_ranges ? 2 * kSmallChunk : kSmallChunk));
      const FileRange all{is_other && other_ranges ? 1U : 0U, content_.size()};
      file.start({&all, 1});
    });
    for (const auto& exception : thrown) {
      ASSERT_NE(exception, nullptr);
      EXPECT_EQ(as_error(exception).code(), ErrorCode::kUsage);
      EXPECT_NE(as_error(exception).message().find("rank 2"), std::string::npos);
    }
  }
}

TEST_F(GroupFileTest, WrongChunkSizesAreRefused) {
  ThreadsGroup group(1);
  expect_none(group.run([&](Group& of_rank) {
    for (const std::size_t bytes : {0U, 1U, 4095U, 5000U}) {
      EXPECT_EQ(
          test::error_of([&] { GroupFile(memory_file(content_), of_rank, group_options(GroupRead::kGather, bytes)); }),
          ErrorCode::kUsage);
    }
  }));
}

TEST_F(GroupFileTest, WritesAreRefused) {
  ThreadsGroup group(1);
  expect_none(group.run([&](Group& of_rank) {
    GroupFile file(memory_file(content_), of_rank, {});
    EXPECT_EQ(test::error_of([&] { file.write_at(0, std::span(content_)); }), ErrorCode::kWriteFailed);
    EXPECT_FALSE(file.moves_device_memory());
  }));
}

// The chunks are read by the transfers of each path.
class GroupPathTest : public test::PathTest {};
INSTANTIATE_TEST_SUITE_P(EveryPath, GroupPathTest, ::testing::ValuesIn(test::disk_paths()), test::test_name);

TEST_P(GroupPathTest, LoadsTogether) {
  const test::Content content = large_and_small();
  const std::string name = new_name();
  for (const Layout layout : {Layout::kV4, Layout::kV5Segments}) {
    WriteOptions writing;
    writing.layout = layout;
    write_file(name, content.table, content.source(), writing);
    for (const std::size_t chunk : {kSmallChunk, std::size_t{1} << 20}) {
      ThreadsGroup group(3);
      std::mutex mutex;
      std::uint64_t storage_bytes = 0;
      const auto thrown = group.run([&](Group& of_rank) {
        ReadOptions options;
        options.io_path = GetParam();
        options.piece_bytes = kPieceBytes;
        GroupReadCounts counts;
        const LoadedTensors loaded =
            load_together(name, of_rank, group_options(GroupRead::kGather, chunk), std::move(options),
                          Verification::kAll, HostMemory::Pages::kHuge, &counts);
        const std::lock_guard lock(mutex);
        storage_bytes += counts.storage_bytes;
        EXPECT_EQ(counts.reread_bytes, 0U);
        EXPECT_TRUE(copies_of(loaded) == content.data);
      });
      for (const auto& exception : thrown) EXPECT_EQ(exception, nullptr) << as_error(exception).what();
      // Whole pages, of which two chunks may need the same one.
      EXPECT_LT(storage_bytes, std::filesystem::file_size(name) + (64 << 10));
    }
    std::filesystem::remove(name);
  }
}

TEST(RankReport, SaysWhatItWasGiven) {
  std::array<std::byte, kReportBytes> bytes;
  RankReport report{.number = 5, .file_bytes = 7};
  report.digest.fill(std::byte{3});
  encode_report(report, bytes);
  const RankReport plain = decode_report(bytes, 5);
  EXPECT_EQ(plain.file_bytes, 7U);
  EXPECT_EQ(plain.digest, report.digest);
  EXPECT_FALSE(plain.error);
  report.error = Error(ErrorCode::kReadFailed, std::string(5'000, 'x'), 9);
  encode_report(report, bytes);
  const RankReport failed = decode_report(bytes, 5);
  EXPECT_EQ(failed.error->code(), ErrorCode::kReadFailed);
  EXPECT_EQ(failed.error->offset(), 9U);
  EXPECT_GT(failed.error->message().size(), 400U);
  EXPECT_TRUE(report.error->message().starts_with(failed.error->message()));
}

TEST(RankReport, AnotherReportIsNotTakenForIt) {
  std::array<std::byte, kReportBytes> bytes{};
  EXPECT_THROW(decode_report(bytes, 0), BrokenGroup);
  encode_report({.number = 5}, bytes);
  EXPECT_THROW(decode_report(bytes, 6), BrokenGroup);
}

}  // namespace
}  // namespace tzmark
