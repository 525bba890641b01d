// Ranges of files in host memory, by every I/O path: wherever they begin and end, and what ends a read early.
#include "codec/range_read.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "testing/files/path_test.h"
#include "testing/files/tensors_files.h"

namespace tzmark {
namespace {

std::vector<std::byte> random_bytes(std::size_t count) {
  std::minstd_rand random(7);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class RangeReadTest : public test::PathTest {};
INSTANTIATE_TEST_SUITE_P(EveryPath, RangeReadTest, ::testing::ValuesIn(test::all_paths()), test::test_name);

TEST_P(RangeReadTest, FillsAnyRange) {
  const std::vector<std::byte> content = random_bytes(1'000'003);
  const auto file = open(content);
  for (const unsigned threads : {1U, 3U}) {
    for (const std::size_t piece_bytes : {4096U, 65'536U, 2U << 20}) {
      for (const auto& [offset, size] : std::vector<std::pair<std::size_t, std::size_t>>{
               {0, content.size()}, {1, content.size() - 2}, {12'293, 500'000}, {999'000, 1'003}, {5, 0}}) {
        SCOPED_TRACE(fmt::format("{} threads, pieces of {}, {} bytes from {}", threads, piece_bytes, size, offset));
        std::atomic<std::uint64_t> told = 0;
        RangeReadOptions options{.threads = threads, .piece_bytes = piece_bytes};
        options.progress = [&](std::uint64_t bytes) { told += bytes; };
        // At an odd address, with room before and after it that stays.
        std::vector<std::byte> room(size + 2, std::byte{0xa5});
        read_range(*file, offset, std::span(room).subspan(1, size), options);
        EXPECT_EQ(told, size);
        EXPECT_TRUE(
            std::equal(room.begin() + 1, room.end() - 1, content.begin() + static_cast<std::ptrdiff_t>(offset)));
        EXPECT_EQ(room.front(), std::byte{0xa5});
        EXPECT_EQ(room.back(), std::byte{0xa5});
      }
    }
  }
}

TEST_P(RangeReadTest, EndsAtTheEndOfTheFile) {
  const auto file = open(random_bytes(100'000));
  for (const std::size_t piece_bytes : {4096U, 1U << 20}) {
    std::vector<std::byte> out(50'000);
    EXPECT_EQ(test::error_of([&] { read_range(*file, 60'000, std::span(out), {.piece_bytes = piece_bytes}); }),
              ErrorCode::kFileChanged);
  }
}

TEST_P(RangeReadTest, EndsWhereProgressThrows) {
  struct Stop {};
  const auto file = open(random_bytes(100'000));
  std::vector<std::byte> out(100'000);
  RangeReadOptions options{.threads = 2, .piece_bytes = 4096};
  options.progress = [](std::uint64_t) { throw Stop(); };
  EXPECT_THROW(read_range(*file, 0, std::span(out), options), Stop);
}

}  // namespace
}  // namespace tzmark
