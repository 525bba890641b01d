// Pages of a file that two adjacent parts share, on paths that bypass the page cache.
//
// The edge of a part that ends inside a page would have to use the page cache, which is slow. So the part that is ready
// first leaves its half of the page here, and the other one writes the whole page.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <vector>

#include "codec/lanes.h"

namespace tzmark {

// Thread-safe. Keeps as many pages as there were waiting halves at one time.
class SharedPages {
 public:
  enum class Half { kLower, kUpper };

  // boundary: the file offset, inside a page, where one part ends and the next begins. page: the whole page in the
  // caller's buffer, with the caller's half filled in. Returns true if the other half was available and has been filled
  // in: the caller writes the page. Otherwise keeps the caller's half, and the caller skips the page.
  bool complete(std::uint64_t boundary, Half mine, std::span<std::byte, kPartAlignBytes> page) {
    const auto cut = static_cast<std::size_t>(boundary % kPartAlignBytes);
    const std::lock_guard lock(mutex_);
    const auto kept = std::ranges::find(kept_, boundary, &Kept::boundary);
    if (kept != kept_.end()) {
      copy_half(mine == Half::kLower ? Half::kUpper : Half::kLower, cut, kept->page, page);
      kept->boundary = kNone;
      return true;
    }
    auto free = std::ranges::find(kept_, kNone, &Kept::boundary);
    if (free == kept_.end()) free = kept_.insert(free, Kept());
    free->boundary = boundary;
    copy_half(mine, cut, page, free->page);
    return false;
  }

 private:
  using Page = std::span<std::byte, kPartAlignBytes>;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Kept {
    std::uint64_t boundary = kNone;
    std::array<std::byte, kPartAlignBytes> page;
  };

  static void copy_half(Half half, std::size_t cut, Page from, Page to) {
    const std::size_t begin = half == Half::kLower ? 0 : cut;
    const std::size_t end = half == Half::kLower ? cut : kPartAlignBytes;
    std::memcpy(to.data() + begin, from.data() + begin, end - begin);
  }

  std::mutex mutex_;
  std::vector<Kept> kept_;
};

}  // namespace tzmark
