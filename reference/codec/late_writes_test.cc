// Small writes that are made late: every byte arrives, and only whole pages are written at once.
#include "codec/late_writes.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/files/memory_file.h"

namespace tzmark {
namespace {

// A file that bypasses the page cache, and records its writes.
class PageWritingFile final : public File {
 public:
  std::string_view io_path() const override { return "paged"; }
  std::uint64_t size() const override { return memory_.size(); }
  std::size_t transfer_align_bytes() const override { return 4096; }
  const std::vector<std::byte>& content() const { return memory_.content(); }
  std::vector<std::uint64_t> offsets;

 protected:
  std::size_t read_some(std::uint64_t, MutableBuffer) override { return 0; }
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    offsets.push_back(offset);
    memory_.write_at(offset, in);
    return in.size;
  }
  void sync_all() override {}

 private:
  MemoryFile memory_;
};

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

TEST(LateWrites, ReturnWholePagesAndWriteTheRestInOrder) {
  const std::vector<std::byte> content = random_bytes(1'000'000);
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    PageWritingFile file;
    LateWrites late(file);
    for (std::size_t at = 0; at < content.size();) {
      const std::size_t length = std::min<std::size_t>(content.size() - at, random() % (seed % 2 == 0 ? 20'000 : 700));
      std::uint64_t offset = at;
      const ConstBuffer now = late.keep_edges(offset, std::span(content).subspan(at, length));
      EXPECT_EQ(now.size % 4096, 0U);
      if (now.size > 0) {
        EXPECT_EQ(offset % 4096, 0U);
        file.write_at(offset, now);
      }
      at += length;
    }
    file.offsets.clear();
    late.flush();
    EXPECT_TRUE(std::ranges::is_sorted(file.offsets));
    EXPECT_EQ(file.content(), content);
    file.offsets.clear();
    late.flush();
    EXPECT_TRUE(file.offsets.empty()) << "nothing is written twice";
  }
}

TEST(LateWrites, KeepNothingBackOnPathsThroughThePageCache) {
  MemoryFile file;
  LateWrites late(file);
  const std::vector<std::byte> content = random_bytes(100);
  std::uint64_t offset = 7;
  EXPECT_EQ(late.keep_edges(offset, std::span(content)).size, 100U);
  EXPECT_EQ(offset, 7U);
  late.flush();
  EXPECT_TRUE(file.content().empty());
}

TEST(LateWrites, BoundTheirMemory) {
  PageWritingFile file;
  LateWrites late(file);
  const std::vector<std::byte> header = random_bytes(300);
  std::size_t kept_bytes_max = 0;
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    late.keep(i * 300, header);
    kept_bytes_max = std::max<std::size_t>(kept_bytes_max, (i + 1) * 300 - file.content().size());
  }
  EXPECT_LE(kept_bytes_max, std::size_t{4} << 20);
  late.flush();
  EXPECT_EQ(file.content().size(), 50'000U * 300);
}

TEST(LateWrites, ForgetAWriteForWhichThereIsNoMemory) {
  PageWritingFile file;
  LateWrites late(file);
  const std::vector<std::byte> content = random_bytes(100);
  late.keep(10, content);
  EXPECT_THROW(late.keep(200, {content.data(), ~std::size_t{0} / 2}), std::length_error);
  late.keep(300, content);
  late.flush();
  EXPECT_EQ(file.offsets, (std::vector<std::uint64_t>{10, 300}));
}

}  // namespace
}  // namespace tzmark
