// The image holds all kernels: as code of two GPUs, and as PTX for later ones.
#include "gpu/image.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace tzmark::gpu {
namespace {

#ifdef TZMARK_HAS_KERNELS

TEST(Image, HoldsTheKernels) {
  const std::string_view text(reinterpret_cast<const char*>(image().data()), image().size());
  const auto holds = [](std::string_view part, std::string_view name) { return part.find(name) != part.npos; };
  std::vector<std::string_view> programs;
  for (std::size_t at = text.find("\x7f"
                                  "ELF");
       at != text.npos;) {
    const std::size_t next = text.find(
        "\x7f"
        "ELF",
        at + 1);
    programs.push_back(text.substr(at, next - at));
    at = next;
  }
  EXPECT_EQ(programs.size(), 2U);
  for (const std::string name :
       {"tzmark_crc32_tables", "tzmark_crc32_matrix", "tzmark_secretbox_keys", "tzmark_secretbox_macs",
        "tzmark_secretbox_verdicts", "tzmark_secretbox_open", "tzmark_read"}) {
    for (const std::string_view program : programs) EXPECT_TRUE(holds(program, ".text." + name + '\0')) << name;
    EXPECT_TRUE(holds(text, ".entry " + name + "(")) << name;
  }
  EXPECT_TRUE(holds(text, ".target sm_90"));
  EXPECT_FALSE(holds(text, "tzmark_sha256"));
}

TEST(Image, CanBeLoadedFromWhereItIs) {
  ASSERT_FALSE(image().empty());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image().data()) % 16, 0U);
}

#endif

}  // namespace
}  // namespace tzmark::gpu
