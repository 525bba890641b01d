// Lists the settings and measures how far apart they are; see space.h.
#include "tune/space.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kBlockBytesMin = std::uint64_t{64} << 10;
constexpr std::uint64_t kBlockBytesMax = std::uint64_t{16} << 20;
constexpr unsigned kDepthMax = 128;

// Adds the settings to the standard one.
class Listing {
 public:
  explicit Listing(const SpaceOptions& options)
      : options_(options), cores_(std::max(1U, options.cores)), settings_{options.standard} {}

  std::vector<Setting> list() {
    for (const TunePath& path : options_.paths) {
      for (std::uint64_t block = kBlockBytesMin; block <= kBlockBytesMax; block *= 2) add_block(path, block);
    }
    return std::move(settings_);
  }

 private:
  void add_block(const TunePath& path, std::uint64_t block) {
    if (block % std::max<std::uint64_t>(1, options_.align_bytes) != 0) return;
    for (unsigned depth = 1; depth <= kDepthMax; depth *= 2) {
      if (!is_affordable(block, depth) || exceeds_workload(block, depth)) continue;
      for (const unsigned threads : thread_counts(path, depth)) {
        for (const Pages pages : options_.pages) add({path.name, block, depth, threads, pages});
      }
    }
  }

  bool is_affordable(std::uint64_t block, unsigned depth) const {
    return options_.memory_limit_bytes == 0 || block * depth <= options_.memory_limit_bytes;
  }

  // Whether half the depth would already hold the whole workload.
  bool exceeds_workload(std::uint64_t block, unsigned depth) const {
    return options_.workload_bytes != 0 && depth > 1 && block * (depth / 2) >= options_.workload_bytes;
  }

  std::vector<unsigned> thread_counts(const TunePath& path, unsigned depth) const {
    if (!path.is_asynchronous) return {std::min(depth, cores_)};
    std::vector<unsigned> counts;
    for (unsigned threads = 1; threads <= 2 * cores_ && threads <= depth; threads *= 2) counts.push_back(threads);
    if (cores_ <= depth && !std::ranges::binary_search(counts, cores_)) counts.push_back(cores_);
    return counts;
  }

  void add(const Setting& setting) {
    if (setting != options_.standard) settings_.push_back(setting);
  }

  const SpaceOptions& options_;
  const unsigned cores_;
  std::vector<Setting> settings_;
};

}  // namespace

std::vector<Setting> settings_of(const SpaceOptions& options) { return Listing(options).list(); }

Space::Space(std::span<const Setting> settings) {
  std::vector<std::string_view> names;
  for (const Setting& setting : settings) {
    const auto path = static_cast<std::size_t>(std::ranges::find(names, setting.io) - names.begin());
    if (path == names.size()) {
      names.emplace_back(setting.io);
      paths_.emplace_back();
    }
    paths_[path].push_back(places_.size());
    places_.push_back({path,
                       {std::log2(static_cast<double>(setting.block_bytes)), std::log2(setting.queue_depth),
                        std::log2(setting.threads), setting.pages == Pages::kHuge ? 1.0 : 0.0}});
  }
}

std::vector<std::size_t> Space::neighbors(std::size_t setting) const {
  std::vector<std::size_t> found;
  for (const std::size_t other : paths_[path_of(setting)]) {
    if (other != setting && are_neighbors(places_[setting], places_[other])) found.push_back(other);
  }
  return found;
}

bool Space::are_neighbors(const Place& a, const Place& b) {
  int differences = 0;
  for (std::size_t i = 0; i < a.doublings.size(); ++i) {
    const double apart = std::abs(a.doublings[i] - b.doublings[i]);
    if (apart > 1.001) return false;
    differences += apart > 0 ? 1 : 0;
  }
  return differences <= 2;
}

std::vector<std::size_t> Space::spread(std::size_t path, std::size_t count, std::mt19937_64& random) const {
  const std::vector<std::size_t>& all = paths_[path];
  std::vector<double> nearest(all.size(), std::numeric_limits<double>::infinity());
  std::vector<std::size_t> chosen;
  std::size_t next = std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random);
  while (chosen.size() < std::min(count, all.size())) {
    chosen.push_back(all[next]);
    for (std::size_t i = 0; i < all.size(); ++i) nearest[i] = std::min(nearest[i], distance(all[next], all[i]));
    next = static_cast<std::size_t>(std::ranges::max_element(nearest) - nearest.begin());
  }
  return chosen;
}

double Space::distance(std::size_t a, std::size_t b) const {
  double sum = 0;
  for (std::size_t i = 0; i < places_[a].doublings.size(); ++i) {
    const double apart = places_[a].doublings[i] - places_[b].doublings[i];
    sum += apart * apart;
  }
  return sum;
}

}  // namespace tzmark::bench
