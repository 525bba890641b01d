// Sizes of data within the limits of a cgroup.
#include "cli/data_size.h"

#include <gmock/gmock.h>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMebibyte = 1 << 20;

CgroupLimits limited(std::uint64_t limit_bytes, std::uint64_t left_bytes) {
  return {.cpu_cores = {}, .memory_bytes = limit_bytes, .memory_left_bytes = left_bytes};
}

std::string refusal_of(std::uint64_t given_bytes, const CgroupLimits& limits) {
  try {
    static_cast<void>(data_size(given_bytes, 256 * kMebibyte, {}, limits));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResource);
    return error.message();
  }
  return "accepted";
}

TEST(DataSize, IsTheDefaultWithoutALimit) {
  EXPECT_EQ(data_size(0, 256 * kMebibyte, {}, {}).bytes, 256 * kMebibyte);
  EXPECT_EQ(data_size(5000, 256 * kMebibyte, {}, {}).bytes, 5000u);
  const DataSize roomy = data_size(0, 256 * kMebibyte, {}, limited(2048 * kMebibyte, 1900 * kMebibyte));
  EXPECT_EQ(roomy.bytes, 256 * kMebibyte);
  EXPECT_EQ(roomy.note, "");
}

TEST(DataSize, IsAsMuchAsFitsAndSaysWhy) {
  const DataSize container = data_size(0, 256 * kMebibyte, {}, limited(400 * kMebibyte, 390 * kMebibyte));
  EXPECT_EQ(container.bytes, 64 * kMebibyte);
  EXPECT_EQ(container.note,
            "64 MiB of data instead of 256 MiB: a cgroup limits memory to 400 MiB, of which 390 MiB are left");
  EXPECT_EQ(data_size(0, 256 * kMebibyte, {}, limited(64 * kMebibyte, 60 * kMebibyte)).bytes, 2 * kMebibyte);
  // Others may use most of the limit.
  EXPECT_EQ(data_size(0, 256 * kMebibyte, {}, limited(400 * kMebibyte, 180 * kMebibyte)).bytes, 8 * kMebibyte);
  EXPECT_EQ(data_size(0, 256 * kMebibyte, {.comfortable = 20}, limited(400 * kMebibyte, 390 * kMebibyte)).bytes,
            8 * kMebibyte);
}

TEST(DataSize, RefusesWhatCannotFit) {
  const CgroupLimits container = limited(400 * kMebibyte, 390 * kMebibyte);
  EXPECT_EQ(data_size(128 * kMebibyte, 256 * kMebibyte, {}, container).bytes, 128 * kMebibyte) << "it may";
  EXPECT_THAT(refusal_of(256 * kMebibyte, container),
              HasSubstr("limits memory to 400 MiB, of which 390 MiB are left, and 256 MiB of data need about 644 MiB: "
                        "use --scale 64MiB or less"));
  EXPECT_THAT(refusal_of(0, limited(30 * kMebibyte, 20 * kMebibyte)), HasSubstr("raise the limit"));
}

}  // namespace
}  // namespace tzmark::bench
