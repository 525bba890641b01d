// Suggests the name that was most likely meant; see suggestion.h.
#include "program/suggestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace tzmark::conformance {
namespace {

constexpr std::size_t kWordMaxBytes = 64;

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, change}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(std::string_view word, const std::vector<std::string>& names) {
  if (word.size() > kWordMaxBytes || names.empty()) return "";
  const std::string* nearest = nullptr;
  std::size_t smallest = word.size() / 3 + 2;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(word, name);
    if (distance >= smallest) continue;
    smallest = distance;
    nearest = &name;
  }
  return nearest ? fmt::format("; did you mean '{}'?", *nearest) : "";
}

}  // namespace tzmark::conformance
