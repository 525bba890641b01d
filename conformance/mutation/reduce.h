// Delta debugging of a list and of a number, with large steps first.
//
// Thread-safety: as that of the function that is given.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tzmark::conformance::mutation {

// Runs are at least this part of the list, so that a long list that cannot shrink does not take for ever.
inline constexpr std::size_t kReduceRunsMax = 256;

// without(begin, end) tries to remove that run from the list, and returns whether it did. Returns whether any run was
// removed.
template <typename Without>
bool reduce(std::size_t size, const Without& without) {
  bool changed = false;
  const std::size_t run_min = std::max<std::size_t>(size / kReduceRunsMax, 1);
  for (std::size_t run = size; run >= run_min && size > 0; run /= 2) {
    for (std::size_t begin = 0; begin < size;) {
      const std::size_t end = std::min(begin + run, size);
      if (without(begin, end)) {
        size -= end - begin;
        changed = true;
      } else {
        begin = end;
      }
    }
  }
  return changed;
}

// to(number) tries a smaller number, and returns whether it holds. Returns whether any does.
template <typename To>
bool reduce_number(std::uint64_t number, const To& to) {
  if (number == 0) return false;
  if (to(0)) return true;
  bool changed = false;
  for (std::uint64_t step = (number + 1) / 2; step > 0; step /= 2) {
    while (number > step && to(number - step)) {
      number -= step;
      changed = true;
    }
  }
  return changed;
}

}  // namespace tzmark::conformance::mutation
