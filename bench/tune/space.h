// The settings that a tuner chooses among, and which of them are close to each other.
//
// Values; functions are thread-safe and throw only std::bad_alloc, unless they say otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tune/setting.h"

namespace tzmark::bench {

// An I/O path that works here.
struct TunePath {
  std::string name;
  bool is_asynchronous = false;  // as File::is_asynchronous
};

struct SpaceOptions {
  std::vector<TunePath> paths;
  unsigned cores = 1;
  std::uint64_t align_bytes = 1;         // of the storage; block sizes are multiples of it
  std::uint64_t memory_limit_bytes = 0;  // of bytes in flight; 0: no limit
  std::uint64_t workload_bytes = 0;      // a depth beyond its transfers would change nothing; 0: not known
  std::vector<Pages> pages = {Pages::kHuge, Pages::kSmall};
  Setting standard;  // what the codec does without options, with every number resolved
};

// Returns all combinations of path, block size (64 KiB to 16 MiB), depth (1 to 128), threads (1 to twice the cores) and
// pages, each of the numbers by powers of two (threads: and the cores), without those that only repeat another one:
//   - An asynchronous path has a queue of at least one transfer per thread: a depth below the threads equals one of as
//     many.
//   - A synchronous path transfers in its workers, so the depth sets their number. The threads are as many as the
//     depth, up to the cores.
// The standard setting comes first, even if it is none of these or above the memory limit.
std::vector<Setting> settings_of(const SpaceOptions& options);

// The settings with their neighborhood. Keeps a copy of them.
class Space {
 public:
  explicit Space(std::span<const Setting> settings);

  std::size_t size() const { return places_.size(); }
  // Paths are numbered by their first setting.
  std::size_t path_count() const { return paths_.size(); }
  std::size_t path_of(std::size_t setting) const { return places_[setting].path; }
  const std::vector<std::size_t>& settings_of_path(std::size_t path) const { return paths_[path]; }

  // Returns the settings of the same path that differ in at most two numbers, each at most doubled or halved, pages
  // being one of them: a longer block at a smaller depth, for example, keeps the bytes in flight.
  std::vector<std::size_t> neighbors(std::size_t setting) const;

  // Returns up to `count` settings of a path, each as far as possible from those before it; the first is random.
  std::vector<std::size_t> spread(std::size_t path, std::size_t count, std::mt19937_64& random) const;

 private:
  struct Place {
    std::size_t path = 0;
    std::array<double, 4> doublings = {};  // logarithms of block, depth and threads; pages
  };

  static bool are_neighbors(const Place& a, const Place& b);
  double distance(std::size_t a, std::size_t b) const;

  std::vector<Place> places_;
  std::vector<std::vector<std::size_t>> paths_;
};

}  // namespace tzmark::bench
