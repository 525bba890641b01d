// Loads of rising bytes in flight, each longer than the bursts that devices permit; see device_points.h.
#include "cli/tune/device_points.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "cli/tune/device_load.h"
#include "subjects/ours.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kBlockBytes = kMib;
constexpr unsigned kDepths[] = {2, 8, 32, 128};

std::string direct_path(const Probe& probe) {
  if (!probe.takes_direct) return "";
  for (const bool is_asynchronous : {true, false}) {
    for (const IoPath& path : io_paths()) {
      const PathTraits& traits = path.traits;
      if (traits.is_asynchronous != is_asynchronous || !traits.bypasses_cache) continue;
      if (traits.moves_device_memory || traits.polls_submissions) continue;
      if (path.why_unavailable().empty()) return std::string(path.name);
    }
  }
  return "";
}

// Larger than what is in flight, unless the storage takes too long to write it.
std::uint64_t make_file(const std::string& name, const TensorContent& content, const DeviceLimits& limits,
                        const std::function<void()>& check) {
  const auto half_second = static_cast<std::uint64_t>(limits.codec_rate / 2);
  const std::uint64_t wanted = std::min({256 * kMib, half_second, limits.file_bytes_max});
  const auto file = open_file(name, OpenMode::kCreate);
  std::uint64_t end = 0;
  do {
    check();
    content.make_new_version();
    file->write_at(end, content.bytes());
    end += content.data_bytes();
  } while (end < wanted);
  file->sync();
  return end;
}

std::optional<double> rate_of(const DeviceLoad& load, const std::function<void()>& check) {
  try {
    return measure_device(load, check);
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::kUnavailable) throw;
    return std::nullopt;
  }
}

}  // namespace

void measure_device_points(Workplace& place, const Probe& probe, const TensorContent& content, TuneTask task,
                           const DeviceLimits& limits, const std::function<void(std::uint64_t)>& step,
                           const std::function<void(const DevicePoint&)>& found) {
  DeviceLoad load;
  load.io = direct_path(probe);
  if (load.io.empty()) return;
  load.file_name = place.new_name(".device");
  const std::uint64_t file_bytes = make_file(load.file_name, content, limits, [&] { step(0); });
  load.writes = task == TuneTask::kSave;
  load.block_bytes = kBlockBytes;
  load.threads = thread_count(0);
  std::vector<unsigned> depths(std::begin(kDepths), std::end(kDepths));
  if (limits.in_flight_bytes_max != 0) {
    std::erase_if(depths, [&](unsigned depth) { return depth * kBlockBytes > limits.in_flight_bytes_max; });
  }
  std::size_t points = 0;
  for (std::size_t i = 0; i < depths.size(); ++i) {
    const std::uint64_t in_flight = depths[i] * kBlockBytes;
    const nanoseconds each =
        std::clamp<nanoseconds>((limits.end - Clock::now()) / static_cast<long>(depths.size() - i), 50ms, 4s);
    load.warm_up = each / 4;
    load.time = each - load.warm_up;
    load.queue_depth = depths[i];
    step(in_flight);
    if (const auto rate = rate_of(load, [&] { step(in_flight); })) {
      found({in_flight, *rate});
      ++points;
      // More would only wait in queues, or repeat blocks of the file; the other points get the time.
      while (depths.size() > std::max<std::size_t>(2, i + 1) &&
             (static_cast<double>(depths.back() * kBlockBytes) > *rate / 4 ||
              depths.back() * kBlockBytes > file_bytes / 2)) {
        depths.pop_back();
      }
    }
    if (Clock::now() >= limits.end && points > 1) break;
  }
  std::filesystem::remove(load.file_name);
}

}  // namespace tzmark::bench
