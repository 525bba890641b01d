// Tests each split of the series; see throttling.h.
#include "tune/throttling.h"

#include <algorithm>
#include <vector>

#include "harness/ranks.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kPartMin = 3;

double middle_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

}  // namespace

std::optional<Fall> find_fall(std::span<const std::optional<double>> rates) {
  std::vector<double> known;
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (!rates[i]) continue;
    known.push_back(*rates[i]);
    positions.push_back(i);
  }
  if (known.size() < 2 * kPartMin) return {};
  const std::span<const double> all = known;
  const std::size_t splits = known.size() - 2 * kPartMin + 1;
  std::optional<Fall> best;
  // Where p-values tie, which they do if all splits separate completely, the largest fall counts.
  double least_p = kThrottlingAlpha / static_cast<double>(splits);
  for (std::size_t split = kPartMin; split + kPartMin <= known.size(); ++split) {
    const std::span<const double> before = all.first(split);
    const std::span<const double> after = all.subspan(split);
    const Fall fall{positions[split], middle_of(before), middle_of(after)};
    if (fall.after > (1 - kThrottlingFall) * fall.before) continue;
    const double p = unpaired_shift(before, after, kThrottlingAlpha).p;
    const bool is_deeper = best && p == least_p && fall.after / fall.before < best->after / best->before;
    if (p < least_p || is_deeper) {
      least_p = p;
      best = fall;
    }
  }
  if (!best) return {};
  const std::span<const double> last = all.last(std::max<std::size_t>(1, known.size() / 4));
  if (middle_of(last) > (1 - kThrottlingFall) * best->before) return {};
  return best;
}

}  // namespace tzmark::bench
