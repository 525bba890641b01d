// The time that hashes take grows with the data, not with how many hashes a file lists for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "model/model.h"

namespace tzmark::conformance::model {
namespace {

constexpr std::uint64_t kDataBytes = 4 << 20;

std::string number(std::uint64_t value, std::size_t width_bytes) {
  std::string bytes;
  for (std::size_t i = 0; i < width_bytes; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}

// A file of data version 1 with one tensor of uint8, which has so many wrong hashes of type SHA-256.
std::string file_with_hashes(std::size_t hash_count) {
  const std::string tail = number(3, 1) + "|u1" + number(1, 1) + number(kDataBytes, 4);
  const std::string entry = number(1, 2) + "w" + number(0, 1) + tail;
  std::string hashes = number(hash_count, 1);
  for (std::size_t i = 0; i < hash_count; ++i) hashes += number(1, 1) + number(32, 1) + std::string(32, '\x55');
  const std::string header = number(0, 2) + number(0, 1) + number(1, 2) + "w" + tail + number(hashes.size(), 2) +
                             hashes + number(kDataBytes, 8);
  const std::uint64_t index_bytes = entry.size() + 24;
  const std::uint64_t header_offset = 65 + 8 + index_bytes;
  const std::uint64_t header_bytes = 8 + header.size();
  return "|TZR|" + number(1, 4) + std::string(32, '\0') + number(kDataBytes, 8) + number(0, 8) + number(1, 8) +
         number(index_bytes, 8) + entry + number(header_offset, 8) + number(header_offset + header_bytes, 8) +
         number(kDataBytes, 8) + number(header_bytes, 8) + header + std::string(kDataBytes, '\0') + number(0, 8);
}

// Processor time, as others may use the machine.
std::clock_t describe_ticks(std::size_t hash_count) {
  const std::string file = file_with_hashes(hash_count);
  const std::clock_t start = std::clock();
  const Description description = describe(std::as_bytes(std::span(file)), {});
  const std::clock_t ticks = std::clock() - start;
  const auto wrong = std::count_if(description.defects.begin(), description.defects.end(),
                                   [](const Defect& defect) { return defect.rule == "TZR-HSH-006"; });
  EXPECT_EQ(wrong, hash_count);
  EXPECT_EQ(description.defects.size(), hash_count) << sentence_of(description.defects.front());
  return ticks;
}

TEST(Hashes, OneIsWorkedOutForAll) {
  const std::clock_t one = describe_ticks(1);
  EXPECT_LT(describe_ticks(255), 10 * one);
}

}  // namespace
}  // namespace tzmark::conformance::model
