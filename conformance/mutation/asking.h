// What the minimizers of all formats share: candidates that are tried once each until the time is over, and slices
// without a run of their bytes.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <chrono>
#include <string_view>
#include <unordered_set>

#include "model/text.h"
#include "mutation/draft.h"
#include "mutation/minimize.h"

namespace tzmark::conformance::mutation {

// Tries candidates, each at most once.
class Asking {
 public:
  Asking(model::Bytes file, const StillHolds& still_holds, const MinimizeOptions& options)
      : still_holds_(&still_holds), end_(Clock::now() + options.elapsed_max) {
    asked_.insert(hash(file));
  }

  bool holds(model::Bytes candidate) {
    if (is_late() || !asked_.insert(hash(candidate)).second) return false;
    ++candidates_;
    return (*still_holds_)(candidate);
  }

  bool is_late() const { return Clock::now() >= end_; }
  std::size_t candidates() const { return candidates_; }

 private:
  using Clock = std::chrono::steady_clock;

  static std::size_t hash(model::Bytes bytes) { return std::hash<std::string_view>()(model::text_of(bytes)); }

  const StillHolds* still_holds_;
  Clock::time_point end_;
  std::unordered_set<std::size_t> asked_;
  std::size_t candidates_ = 0;
};

inline Slice without(const Slice& slice, std::size_t begin, std::size_t end) {
  if (end == slice.bytes.size()) return slice.first(begin);
  if (begin == 0) return slice.from(end);
  std::vector<std::byte> rest(slice.bytes.begin(), slice.bytes.begin() + static_cast<std::ptrdiff_t>(begin));
  rest.insert(rest.end(), slice.bytes.begin() + static_cast<std::ptrdiff_t>(end), slice.bytes.end());
  return slice_of(std::move(rest));
}

}  // namespace tzmark::conformance::mutation
