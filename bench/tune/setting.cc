// Names settings; see setting.h.
#include "tune/setting.h"

#include <fmt/format.h>

namespace tzmark::bench {
namespace {

std::string size_label(std::uint64_t bytes) {
  constexpr std::uint64_t kKiB = 1 << 10;
  constexpr std::uint64_t kMiB = 1 << 20;
  if (bytes % kMiB == 0) return fmt::format("{} MiB", bytes / kMiB);
  if (bytes % kKiB == 0) return fmt::format("{} KiB", bytes / kKiB);
  return fmt::format("{} B", bytes);
}

}  // namespace

std::string label_of(const Setting& setting) {
  return fmt::format("{}, {}, depth {}, {} thread{}, {} pages", setting.io, size_label(setting.block_bytes),
                     setting.queue_depth, setting.threads, setting.threads == 1 ? "" : "s", name_of(setting.pages));
}

}  // namespace tzmark::bench
