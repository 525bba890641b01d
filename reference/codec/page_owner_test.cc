// Which thread fills which huge page of the memory that a file is read to.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "codec/range_read.h"
#include "testing/files/tensors_files.h"
#include "tzmark/memory.h"

namespace tzmark {
namespace {

std::uintptr_t page_of(const std::byte* byte) { return reinterpret_cast<std::uintptr_t>(byte) / kHugePageBytes; }

struct Read {
  std::thread::id thread;
  std::span<std::byte> memory;

  bool is_in_one_page() const { return page_of(memory.data()) == page_of(&memory.back()); }
};

// A file whose reads take long enough for every thread to have its share of them. Small ones are those of headers.
class RecordingFile final : public File {
 public:
  explicit RecordingFile(std::vector<std::byte> content) : inner_(std::move(content)) {}

  std::string_view io_path() const override { return "recording"; }
  std::uint64_t size() const override { return inner_.size(); }
  int headers_at_once() const { return headers_at_once_; }
  // Of what was read into that memory.
  std::vector<Read> reads_into(std::span<const std::byte> memory) const {
    std::vector<Read> found;
    std::ranges::copy_if(reads_, std::back_inserter(found), [&](const Read& read) {
      return read.memory.data() >= memory.data() && read.memory.data() < memory.data() + memory.size();
    });
    return found;
  }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    inner_.read_at(offset, out);
    const bool is_header = out.size < 1000;
    {
      const std::lock_guard lock(mutex_);
      headers_ += is_header;
      headers_at_once_ = std::max(headers_at_once_, headers_);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    const std::lock_guard lock(mutex_);
    headers_ -= is_header;
    reads_.push_back({std::this_thread::get_id(), out.bytes()});
    return out.size;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer) override { throw Error(ErrorCode::kWriteFailed, "read only"); }
  void sync_all() override {}

 private:
  MemoryFile inner_;
  std::mutex mutex_;
  std::vector<Read> reads_;
  int headers_ = 0, headers_at_once_ = 0;
};

std::size_t thread_count(const std::vector<Read>& reads) {
  std::set<std::thread::id> threads;
  for (const Read& read : reads) threads.insert(read.thread);
  return threads.size();
}

test::Content tensors_of(const std::vector<std::uint64_t>& lengths) {
  test::Content content;
  for (std::size_t i = 0; i < lengths.size(); ++i) content.add({std::uint64_t{i}}, "uint8", {lengths[i]});
  return content;
}

class PageOwnerTest : public ::testing::TestWithParam<Verification> {
 protected:
  // What was read into the tensors of a file that four threads load.
  std::vector<Read> load(const test::Content& content) {
    auto file = std::make_unique<RecordingFile>(content.write());
    const RecordingFile& recording = *file;
    ReadOptions options;
    options.threads = 4;
    const Reader reader(std::move(file), std::move(options));
    const LoadedTensors loaded = reader.load(GetParam());
    for (std::size_t i = 0; i < loaded.size(); ++i) EXPECT_TRUE(std::ranges::equal(loaded[i], content.data[i])) << i;
    const std::byte* const begin = loaded[0].data();
    return recording.reads_into({begin, &loaded[loaded.size() - 1].back() + 1});
  }
};

TEST_P(PageOwnerTest, OneThreadReadsWhatBeginsInAPage) {
  std::vector<std::uint64_t> lengths;
  for (int i = 0; i < 4; ++i) {
    for (const std::uint64_t length : {9'000'001, 700'000, 600'001, 10, 3'300'000, 550'000, 150'000}) {
      lengths.push_back(length);
    }
  }
  const std::vector<Read> reads = load(tensors_of(lengths));
  std::map<std::uintptr_t, std::set<std::thread::id>> threads_of;
  for (const Read& read : reads) {
    threads_of[page_of(read.memory.data())].insert(read.thread);
    EXPECT_TRUE(read.is_in_one_page() || read.memory.size() == 150'000) << read.memory.size();
  }
  for (const auto& [page, threads] : threads_of) EXPECT_EQ(threads.size(), 1U) << page;
  EXPECT_GE(threads_of.size(), 4U * 14'300'000 / kHugePageBytes - 1);
  EXPECT_EQ(thread_count(reads), 4U);
}

// The next run begins in the page in which the last tensor ends.
TEST_P(PageOwnerTest, ARunEndsWithTheTensorsThatBeginInItsPage) {
  const std::vector<Read> reads = load(tensors_of(std::vector<std::uint64_t>(60, 300'000)));
  std::map<std::uintptr_t, std::set<std::thread::id>> threads_of;
  for (const Read& read : reads) threads_of[page_of(read.memory.data())].insert(read.thread);
  for (const auto& [page, threads] : threads_of) EXPECT_EQ(threads.size(), 1U) << page;
  EXPECT_EQ(reads.size(), 60U);
  EXPECT_EQ(thread_count(reads), 4U);
}

// The threads would wait for each other if they read headers under the pipeline's lock.
TEST_P(PageOwnerTest, ThreadsReadHeadersSideBySide) {
  const test::Content content = tensors_of(std::vector<std::uint64_t>(40, 600'000));
  auto file = std::make_unique<RecordingFile>(content.write());
  const RecordingFile& recording = *file;
  ReadOptions options;
  options.threads = 4;
  const Reader reader(std::move(file), std::move(options));
  static_cast<void>(reader.load(GetParam()));
  EXPECT_GE(recording.headers_at_once(), 2);
}

// Parts that are smaller than a page.
TEST_P(PageOwnerTest, OneThreadReadsTheSmallPartsOfAPage) {
  const test::Content content = tensors_of({9'000'001, 5'000'000});
  auto file = std::make_unique<RecordingFile>(content.write());
  const RecordingFile& recording = *file;
  ReadOptions options;
  options.threads = 4;
  options.part_bytes = kHugePageBytes / 4;
  const Reader reader(std::move(file), std::move(options));
  const LoadedTensors loaded = reader.load(GetParam());
  std::map<std::uintptr_t, std::set<std::thread::id>> threads_of;
  for (const Read& read : recording.reads_into({loaded[0].data(), &loaded[1].back() + 1})) {
    EXPECT_LE(read.memory.size(), kHugePageBytes / 4);
    threads_of[page_of(read.memory.data())].insert(read.thread);
  }
  EXPECT_GE(threads_of.size(), 6U);
  for (const auto& [page, threads] : threads_of) EXPECT_EQ(threads.size(), 1U) << page;
}

INSTANTIATE_TEST_SUITE_P(Checks, PageOwnerTest, ::testing::Values(Verification::kNone, Verification::kCrc32),
                         [](const auto& of) { return of.param == Verification::kNone ? "none" : "crc32"; });

TEST(RangeReadPagesTest, NoTwoPiecesShareAPage) {
  const std::vector<std::byte> content(9 * kHugePageBytes, std::byte{7});
  RecordingFile file(content);
  const HostMemory memory(content.size());
  const std::span<std::byte> out = memory.bytes().subspan(12'345, content.size() - 20'000);
  read_range(file, 77, out, {.threads = 4});
  const std::vector<Read> reads = file.reads_into(out);
  EXPECT_EQ(reads.size(), page_of(&out.back()) - page_of(out.data()) + 1);
  for (const Read& read : reads) EXPECT_TRUE(read.is_in_one_page());
  EXPECT_EQ(thread_count(reads), 4U);
  EXPECT_EQ(std::ranges::count(out, std::byte{7}), out.size());
}

}  // namespace
}  // namespace tzmark
