// Headers that are read ahead: those of large tensors, in any number of threads, and errors at their tensors.
#include "codec/header_prefetch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "codec/header_reading.h"
#include "codec/write_plan.h"
#include "testing/faults/thread_limit.h"
#include "testing/files/tensors_files.h"
#include "tzmark/reader.h"

namespace tzmark {
namespace {

// A file that bypasses the page cache, and where one offset cannot be read.
class UncachedFile final : public File {
 public:
  explicit UncachedFile(std::vector<std::byte> content) : memory_(std::move(content)) {}
  std::string_view io_path() const override { return "paged"; }
  std::uint64_t size() const override { return memory_.size(); }
  std::size_t transfer_align_bytes() const override { return 4096; }

  std::atomic<std::uint64_t> bad_offset = ~std::uint64_t{0};
  std::atomic<int> reads = 0;
  std::atomic<int> reads_elsewhere = 0;  // by other threads than that of the test
  bool waits_for_others = false;         // the thread of the test reads nothing before another thread has

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    ++reads;
    if (std::this_thread::get_id() != thread_) ++reads_elsewhere;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (waits_for_others && reads_elsewhere == 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (offset == bad_offset) throw Error(ErrorCode::kReadFailed, "bad", offset);
    memory_.read_at(offset, out);
    return out.size;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer in) override { return in.size; }
  void sync_all() override {}

 private:
  MemoryFile memory_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

constexpr std::size_t kTensors = 3'000;

class HeaderPrefetchTest : public ::testing::Test {
 protected:
  HeaderPrefetchTest() {
    test::Content content;
    for (std::uint64_t i = 0; i < kTensors; ++i) content.add({"t", i}, "uint8", {is_large(i) ? 500U : 10U});
    auto file = std::make_unique<UncachedFile>(content.write());
    file_ = file.get();
    state_.emplace(std::move(file), nullptr, ReadOptions());
  }

  // Neighbors, and one after more small tensors than are searched at once.
  static bool is_large(std::size_t i) { return i < 1'400 ? i % 3 != 1 : i == 2'900; }
  std::vector<std::byte> header(std::size_t i) const {
    return read_header(*state_->file, state_->index, state_->index.in_file_order(i));
  }

  UncachedFile* file_ = nullptr;
  std::optional<ReaderState> state_;
};

TEST_F(HeaderPrefetchTest, ReturnsTheHeadersOfLargeTensors) {
  for (const int threads : {0, 1, 100}) {
    const test::ThreadLimit limit(threads);
    HeaderPrefetch headers(*state_, kTensors, is_large);
    for (std::size_t i = 0; i < kTensors; ++i) {
      if (!is_large(i)) continue;
      EXPECT_EQ(headers.take(i), header(i)) << i;
    }
  }
}

TEST_F(HeaderPrefetchTest, ReadsEachOnce) {
  file_->reads = 0;
  int large = 0;
  {
    HeaderPrefetch headers(*state_, kTensors, is_large);
    for (std::size_t i = 0; i < kTensors; ++i) {
      if (is_large(i)) static_cast<void>(headers.take(i));
      large += is_large(i) ? 1 : 0;
    }
  }
  EXPECT_EQ(file_->reads, large);
}

TEST_F(HeaderPrefetchTest, AnErrorIsThatOfItsTensor) {
  constexpr std::size_t kBad = 50;
  file_->bad_offset = state_->index.tensors[state_->index.in_file_order(kBad)].header_offset;
  HeaderPrefetch headers(*state_, kTensors, is_large);
  for (std::size_t i = 0; i < 100; ++i) {
    if (i == kBad) {
      EXPECT_THROW(static_cast<void>(headers.take(i)), Error);
    } else if (is_large(i)) {
      EXPECT_NO_THROW(static_cast<void>(headers.take(i))) << i;
    }
  }
}

TEST(CheckHeaders, ReadsHeadersAheadThatAreFarApart) {
  constexpr std::size_t kCount = 60, kBad = 50;
  test::Content content;
  for (std::uint64_t i = 0; i < kCount; ++i) content.add({"t", i}, "uint8", {i % 4 == 2 ? 10U : 100'000U});
  auto owned = std::make_unique<UncachedFile>(content.write());
  UncachedFile& file = *owned;
  const Reader reader(std::move(owned));
  file.waits_for_others = true;
  std::vector<std::size_t> visited;
  const auto visit = [&](std::size_t i, const TensorHeader&, std::span<const std::byte>) { visited.push_back(i); };
  reader.check_headers(visit);
  ASSERT_EQ(visited.size(), kCount);
  EXPECT_GT(file.reads_elsewhere, 0);
  const std::vector<std::size_t> all = std::exchange(visited, {});
  file.bad_offset = reader.tensors()[all[kBad]].header_offset;
  EXPECT_EQ(test::error_of([&] { reader.check_headers(visit); }), ErrorCode::kReadFailed);
  EXPECT_EQ(visited, std::vector(all.begin(), all.begin() + kBad));
}

TEST_F(HeaderPrefetchTest, EndsAtAnyTime) {
  for (std::size_t taken = 0; taken < 40; ++taken) {
    HeaderPrefetch headers(*state_, kTensors, [](std::size_t i) {
      if (i == 7) throw Error(ErrorCode::kRecordExtraBytes, "its turn never comes");
      return is_large(i);
    });
    for (std::size_t i = 0; i < taken; ++i) {
      if (i != 7 && is_large(i)) static_cast<void>(headers.take(i));
    }
  }
}

TEST_F(HeaderPrefetchTest, AsksOnceForThreadsThatDoNotStart) {
  const test::ThreadLimit limit(0);
  HeaderPrefetch headers(*state_, kTensors, is_large);
  for (std::size_t i = 0; i < 100; ++i) {
    if (is_large(i)) static_cast<void>(headers.take(i));
  }
  EXPECT_EQ(limit.refused(), 1);
}

TEST_F(HeaderPrefetchTest, GoesOnWithoutMemoryForClaims) {
  std::atomic<int> left = 20;
  HeaderPrefetch headers(*state_, kTensors, [&](std::size_t i) {
    if (left-- < 0) throw std::bad_alloc();
    return is_large(i);
  });
  for (std::size_t i = 0; i < kTensors; ++i) {
    if (!is_large(i)) continue;
    EXPECT_EQ(headers.take(i), header(i)) << i;
  }
}

// A sparse file whose index tells of huge encrypted tensors, with the headers that these need.
class HugeFile final : public File {
 public:
  HugeFile(std::vector<std::byte> begin, std::uint64_t bytes) : begin_(std::move(begin)), bytes_(bytes) {}
  std::string_view io_path() const override { return "huge"; }
  std::uint64_t size() const override { return bytes_; }
  std::size_t transfer_align_bytes() const override { return 4096; }

  std::atomic<std::uint64_t> being_read = 0, most_being_read = 0;

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    const std::uint64_t now = being_read += out.size;
    for (std::uint64_t most = most_being_read; most < now && !most_being_read.compare_exchange_weak(most, now);) {
    }
    for (std::size_t i = 0; i < out.size; ++i) {
      out.data[i] = offset + i < begin_.size() ? begin_[offset + i] : std::byte{0};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    being_read -= out.size;
    return out.size;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer in) override { return in.size; }
  void sync_all() override {}

 private:
  const std::vector<std::byte> begin_;
  const std::uint64_t bytes_;
};

TEST(HugeHeaders, AreReadAheadOneAtATime) {
  constexpr std::uint64_t kHeaderBytes = 4 << 20;
  constexpr std::uint64_t kHuge = 12;
  TensorTable table;
  for (std::uint64_t i = 0; i < kHuge; ++i) {
    table.add({"t", i}, Kind::kStateDict, dtype_from_name("uint8"), std::array{kHeaderBytes / kMacBytes * 1024});
  }
  WriteOptions options;
  options.layout = Layout::kV4;
  options.encrypt = test::with_key(1024);
  const WritePlan plan(table, options);
  MemoryFile frame;
  HugeFile end({}, 0);  // does not keep what is written
  plan.write_frame(frame, end);
  auto file = std::make_unique<HugeFile>(frame.content(), plan.file_bytes());
  HugeFile& huge = *file;
  const ReaderState state(std::move(file), nullptr, test::key_options());
  huge.most_being_read = 0;
  HeaderPrefetch headers(state, kHuge, [](std::size_t) { return true; });
  for (std::size_t i = 0; i < kHuge; ++i) EXPECT_GT(headers.take(i).size(), kHeaderBytes);
  EXPECT_LT(huge.most_being_read, 3 * kHeaderBytes) << "with the one whose turn it is";
}

}  // namespace
}  // namespace tzmark
