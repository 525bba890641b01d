// Simulates tuning: storage whose rate is a known function of the setting, with noise, and what the search answers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "simulation/noise.h"
#include "simulation/simulations.h"
#include "tune/search.h"
#include "tune/space.h"

namespace tzmark::bench::simulation {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr unsigned kCores = 4;
constexpr double kWithin = 0.03;
constexpr double kCostMax = 0.1;
constexpr double kEnough = 0.95;  // of the peak, for the least bytes in flight

double doublings(double value) { return std::log2(value); }

// Returns the logarithm of the rate of a setting.
using Surface = std::function<double(const Setting&)>;

// What the search chooses among: the main paths of a Linux machine, with the logarithms of their rates relative to the
// fastest path of each task, which has 0.
struct SimulatedPath {
  TunePath path;
  double warm, cold, cliff;
};
const SimulatedPath kPaths[] = {{{"pwrite", false}, -0.1, -0.6, -0.3},
                                {{"mmap", false}, 0, -0.6, -0.3},
                                {{"direct", false}, -0.6, -0.1, -0.05},
                                {{"uring", true}, -0.6, -0.6, -0.3},
                                {{"uring-direct", true}, -0.6, 0, 0}};

const SimulatedPath& simulated(const Setting& setting) {
  return *std::ranges::find(kPaths, setting.io, [](const SimulatedPath& one) { return one.path.name; });
}

SpaceOptions machine() {
  std::vector<TunePath> paths;
  for (const SimulatedPath& one : kPaths) paths.push_back(one.path);
  return {.paths = std::move(paths),
          .cores = kCores,
          .align_bytes = 4096,
          .memory_limit_bytes = 0,
          .workload_bytes = 0,
          .standard = {"pwrite", 2 * kMiB, kCores, kCores, Pages::kHuge}};
}

// A hill of each path: it falls with the square of the doublings from its top, and bytes in flight that are too few or
// too many cost more than block and depth by themselves.
struct Hill {
  double top = 0;  // logarithm of the rate
  double block = 0, depth = 0, threads = 0;
  Pages pages = Pages::kHuge;

  double at(const Setting& setting) const {
    const double b = doublings(static_cast<double>(setting.block_bytes)) - block;
    const double d = doublings(setting.queue_depth) - depth;
    const double t = doublings(setting.threads) - threads;
    const double falls = 0.03 * (b + d) * (b + d) + 0.02 * (b * b + d * d) + 0.04 * t * t;
    return top - std::log(20.0) * -std::expm1(-falls / std::log(20.0)) - (setting.pages == pages ? 0 : 0.06);
  }
};

double uniform(std::mt19937_64& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

Hill draw_hill(const TunePath& path, double top, std::mt19937_64& random) {
  const double depth = std::floor(uniform(random, path.is_asynchronous ? 2 : 0, 8));
  const double threads = path.is_asynchronous ? std::floor(uniform(random, 0, std::min(depth, 3.0) + 1))
                                              : std::min(depth, doublings(kCores));
  return {top, std::floor(uniform(random, 16, 25)), depth, threads,
          uniform(random, 0, 1) < 0.5 ? Pages::kHuge : Pages::kSmall};
}

const Hill& hill_of(const std::vector<std::pair<std::string, Hill>>& hills, const std::string& path) {
  return std::ranges::find(hills, path, &std::pair<std::string, Hill>::first)->second;
}

// One path has the best setting, the others their own that lose 5 to 50 %.
Surface planted_optimum(std::mt19937_64& random) {
  std::vector<TunePath> paths = machine().paths;
  std::ranges::shuffle(paths, random);
  std::vector<std::pair<std::string, Hill>> hills;
  for (const TunePath& path : paths) {
    const double top = hills.empty() ? 0 : std::log1p(-uniform(random, 0.05, 0.5));
    hills.emplace_back(path.name, draw_hill(path, top, random));
  }
  return [hills](const Setting& setting) { return hill_of(hills, setting.io).at(setting); };
}

// Nearly all settings reach the limit of the device; few bytes in flight do not.
Surface flat(std::mt19937_64& random) {
  const double half_bytes = uniform(random, 5e3, 3e4);
  return [half_bytes](const Setting& setting) {
    return -std::log1p(half_bytes / static_cast<double>(setting.bytes_in_flight()));
  };
}

// Two paths with ridges at right angles, of which the narrow one is higher by 8 %; the others lose half.
Surface two_ridges(std::mt19937_64& random) {
  const double block = std::floor(uniform(random, 17, 24));
  const double depth = std::floor(uniform(random, 2, 7));
  return [=](const Setting& setting) {
    const double b = doublings(static_cast<double>(setting.block_bytes)) - block;
    const double d = doublings(setting.queue_depth) - depth;
    if (simulated(setting).cold == 0) return -0.12 * b * b - 0.015 * d * d;
    if (simulated(setting).warm == 0) return -0.08 - 0.03 * d * d - 0.004 * b * b;
    return std::log(0.5) - 0.01 * b * b;
  };
}

// More bytes in flight are faster until a cache overflows, from which on they take twice as long.
Surface cliff(std::mt19937_64& random) {
  const double cache_bytes = std::exp2(std::floor(uniform(random, 22, 28)));
  return [cache_bytes](const Setting& setting) {
    const auto bytes = static_cast<double>(setting.bytes_in_flight());
    return simulated(setting).cliff + 0.08 * doublings(bytes / cache_bytes) -
           (bytes > cache_bytes ? std::log(2.0) * 2 : 0);
  };
}

// From the page cache, copies by few threads in short blocks are fastest; from the device, many long transfers.
Surface warm(std::mt19937_64&) {
  return [](const Setting& setting) {
    const double b = doublings(static_cast<double>(setting.block_bytes)) - 18;
    const double d = doublings(setting.queue_depth) - 2;
    return simulated(setting).warm - 0.03 * b * b - 0.03 * d * d;
  };
}

Surface cold(std::mt19937_64&) {
  return [](const Setting& setting) {
    const double b = doublings(static_cast<double>(setting.block_bytes)) - 22;
    const double d = doublings(setting.queue_depth) - 5;
    return simulated(setting).cold - 0.03 * b * b - 0.03 * d * d;
  };
}

Surface all_equal(std::mt19937_64&) {
  return [](const Setting&) { return 0.0; };
}

// A storage with this surface, in simulated time.
class SimulatedStorage final : public Meter {
 public:
  SimulatedStorage(Surface surface, std::uint64_t seed)
      : surface_(std::move(surface)), random_(seed), noise_(NoiseKind::kHeavyTailed, random_) {}

  TuneSample sample(const Setting& setting) override {
    TuneSample taken;
    double log_seconds = noise_.next(0) - surface_(setting);
    if (noise_.uniform() < 0.03) log_seconds += std::log(uniform(random_, 1.5, 4));  // an outlier without a cause
    const bool is_disturbed = noise_.uniform() < 0.05;
    if (is_disturbed) log_seconds += uniform(random_, 0.3, 1);
    log_seconds = std::clamp(log_seconds, -2.0, 7.0);  // Student's t may say years
    taken.seconds_per_byte = std::exp(log_seconds) * 1e-9;
    taken.cpu_seconds_per_byte = (0.2 + 0.05 * setting.threads) * 1e-9 * std::exp(0.05 * noise_.normal());
    taken.peak_memory_bytes = setting.bytes_in_flight() + 100 * kMiB;
    const auto elapsed_ns = static_cast<std::uint64_t>(std::exp(log_seconds) * 1e8);
    taken.disturbance = {.elapsed_ns = elapsed_ns, .steal_ns = is_disturbed ? elapsed_ns : 0};
    now_ += std::chrono::nanoseconds(elapsed_ns);
    return taken;
  }
  std::chrono::nanoseconds cost() const override { return std::chrono::milliseconds(100); }
  void renew() override {}

  std::chrono::steady_clock::time_point now() const { return now_; }

 private:
  const Surface surface_;
  std::mt19937_64 random_;
  Noise noise_;
  std::chrono::steady_clock::time_point now_{};
};

struct Planted {
  std::string_view name;
  std::function<Surface(std::mt19937_64&)> draw;
  bool is_equal = false;
  std::chrono::nanoseconds budget = std::chrono::hours(100);  // the number of samples is the limit
  bool is_bounded = true;                                     // whether the bounds hold for it
};

// What the searches of one kind of surface answered.
struct Answers {
  std::size_t searches = 0;
  std::size_t close = 0;  // recommended a setting that loses at most 3 % against the best of the grid
  std::size_t slower_than_standard = 0;
  std::size_t least_reaches = 0;  // the least bytes in flight do reach 95 % of the peak, give or take 3 %
  std::size_t nothing_matters = 0;
  std::size_t changes = 0;  // recommended another setting than the standard one: a false alarm where all are equal
  double loss_max = 0;
  std::vector<double> costs;         // parts of the full grid
  std::vector<double> excess_bytes;  // of the least bytes in flight, over the least of the grid that suffice
};

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

class Tuning {
 public:
  explicit Tuning(const TuningSimulation& options) : options_(options), settings_(settings_of(machine())) {}

  TuningTable run() {
    table_.text =
        "| surface | within 3 % of the best | largest loss | part of the full grid, median | largest | slower than the "
        "default | least in flight reaches 95 % | times the least possible | \"nothing matters\" | recommends a change "
        "|\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for (const Planted& planted :
         {Planted{"planted optimum", planted_optimum}, Planted{"flat", flat}, Planted{"two ridges", two_ridges},
          Planted{"cliff", cliff}, Planted{"opposed, warm", warm}, Planted{"opposed, cold", cold},
          Planted{"all equal", all_equal, true},
          Planted{"planted optimum, 60 s", planted_optimum, false, std::chrono::seconds(60), false}}) {
      add(planted);
    }
    return std::move(table_);
  }

 private:
  void add(const Planted& planted) {
    Answers answers;
    for (std::size_t i = 0; i < options_.searches; ++i) search(planted, options_.seed + 7919 * i, answers);
    const double cost_max = std::ranges::max(answers.costs);
    table_.text +=
        fmt::format("| {} | {} of {} | {:.1f} % | {:.1f} % | {:.1f} % | {} | {} | {:.1f} | {} | {} |\n", planted.name,
                    answers.close, answers.searches, 100 * answers.loss_max, 100 * middle_of(answers.costs),
                    100 * cost_max, answers.slower_than_standard, answers.least_reaches,
                    middle_of(answers.excess_bytes), answers.nothing_matters, answers.changes);
    if (!planted.is_bounded) return;
    const bool all_reached = answers.close == answers.searches && answers.least_reaches == answers.searches;
    table_.holds = table_.holds && all_reached && answers.slower_than_standard == 0 && cost_max <= kCostMax;
    if (!planted.is_equal) return;
    // Both have a confidence of 95 %.
    const double few = 0.05 * static_cast<double>(answers.searches);
    const auto silent = static_cast<double>(answers.searches - answers.nothing_matters);
    table_.holds = table_.holds && silent <= few && static_cast<double>(answers.changes) <= few;
  }

  void search(const Planted& planted, std::uint64_t seed, Answers& answers) {
    std::mt19937_64 random(seed);
    const Surface surface = planted.draw(random);
    SimulatedStorage storage(surface, random());
    SearchOptions options;
    options.budget = planted.budget;
    options.seed = seed;
    options.now = [&] { return storage.now(); };
    SearchResult result;
    DisturbanceFilter filter([](const Disturbance& lap) { return lap.steal_ns > 0; });
    search_settings(storage, settings_, options, filter, result);
    record(surface, result, answers);
  }

  void record(const Surface& surface, const SearchResult& result, Answers& answers) const {
    double peak = -std::numeric_limits<double>::infinity();
    for (const Setting& setting : settings_) peak = std::max(peak, surface(setting));
    const double chosen = surface(result.settings[*result.recommended].setting);
    const double loss = 1 - std::exp(chosen - peak);
    ++answers.searches;
    answers.close += loss <= kWithin ? 1 : 0;
    answers.loss_max = std::max(answers.loss_max, loss);
    answers.slower_than_standard += chosen < surface(settings_.front()) ? 1 : 0;
    answers.changes += result.recommended != result.standard ? 1 : 0;
    answers.nothing_matters += result.verdict == TuneVerdict::kNothingMatters ? 1 : 0;
    const auto grid = static_cast<double>(settings_.size() * result.last_rung_samples);
    answers.costs.push_back(static_cast<double>(result.samples_taken) / grid);
    const Setting& least = result.settings[*result.least_in_flight].setting;
    answers.least_reaches += surface(least) - peak >= std::log(kEnough - kWithin) ? 1 : 0;
    answers.excess_bytes.push_back(static_cast<double>(least.bytes_in_flight()) / least_bytes(surface, peak));
  }

  double least_bytes(const Surface& surface, double peak) const {
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (const Setting& setting : settings_) {
      if (surface(setting) - peak >= std::log(kEnough)) least = std::min(least, setting.bytes_in_flight());
    }
    return static_cast<double>(least);
  }

  const TuningSimulation options_;
  const std::vector<Setting> settings_;
  TuningTable table_;
};

}  // namespace

TuningTable tuning_table(const TuningSimulation& options) { return Tuning(options).run(); }

}  // namespace tzmark::bench::simulation
