// Pages of a file that two neighbouring parts share, when parts end where paths past the page cache cannot.
//
// A part that ends inside a page would be written by two routes, of which the one for the edge waits for all others.
// So whichever of the two is ready first leaves its share of the page here, and the other one writes the whole page.
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

// May be used from any threads. Keeps as many pages as there were halves at one time.
class SharedPages {
 public:
  enum class Half { kLower, kUpper };

  // boundary: where in the file one part ends and the next begins, inside a page. page: the whole page in the memory
  // of the caller, who has filled its half. True: the other half has been filled in, and the caller writes the page.
  // False: the caller's half is kept, and the caller leaves the page alone.
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
