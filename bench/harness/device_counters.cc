// Reads and parses counters of the kernel; see device_counters.h.
#include "harness/device_counters.h"

#include <algorithm>
#include <sstream>

#include "harness/disks.h"
#include "harness/mount.h"
#include "harness/small_file.h"

namespace tzmark::bench {
namespace {

// The unit of /proc/diskstats, whatever the sectors of the device are (Documentation/block/stat.rst).
constexpr std::uint64_t kSectorBytes = 512;

// "mgs@tcp:/scratch/models", a part of the file system "scratch".
std::string lustre_name(const std::string& source) {
  const std::size_t begin = source.find(":/");
  if (begin == std::string::npos) return "";
  return source.substr(begin + 2, source.find('/', begin + 2) - begin - 2);
}

// Adds the lines that say "read_bytes COUNT samples [bytes] MIN MAX SUM" to the sum.
void add_lustre(std::string_view stats, DeviceCounters& sum) {
  std::istringstream lines{std::string(stats)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, skipped;
    std::uint64_t bytes = 0;
    words >> name >> skipped >> skipped >> skipped >> skipped >> skipped >> bytes;
    if (!words) continue;
    if (name == "read_bytes") sum.read_bytes += bytes;
    if (name == "write_bytes") sum.written_bytes += bytes;
  }
}

}  // namespace

std::optional<DeviceCounters> parse_diskstats(std::string_view diskstats, const std::vector<std::string>& disks) {
  DeviceCounters sum;
  std::size_t found = 0;
  std::istringstream lines{std::string(diskstats)};
  for (std::string line; std::getline(lines, line);) {
    // MAJOR MINOR NAME, reads: done merged SECTORS ms, writes: done merged SECTORS ms, ...
    std::istringstream words(line);
    std::string name;
    std::uint64_t skipped = 0;
    std::uint64_t read_sectors = 0;
    std::uint64_t written_sectors = 0;
    words >> skipped >> skipped >> name >> skipped >> skipped >> read_sectors >> skipped >> skipped >> skipped >>
        written_sectors;
    if (!words || std::ranges::find(disks, name) == disks.end()) continue;
    sum.read_bytes += read_sectors * kSectorBytes;
    sum.written_bytes += written_sectors * kSectorBytes;
    ++found;
  }
  if (found == 0 || found != disks.size()) return {};
  return sum;
}

std::optional<DeviceCounters> parse_mountstats(std::string_view mountstats, std::string_view mount_point) {
  std::istringstream lines{std::string(mountstats)};
  bool is_here = false;
  for (std::string line; std::getline(lines, line);) {
    // device SOURCE mounted on POINT with fstype TYPE ..., and in the lines after it
    // bytes: READ WRITTEN DIRECT-READ DIRECT-WRITTEN FROM-SERVER TO-SERVER ... (include/linux/nfs_iostat.h)
    std::istringstream words(line);
    std::string first, source, mounted, on, point, with, fstype, type;
    if (!(words >> first)) continue;
    if (first == "device") {
      words >> source >> mounted >> on >> point >> with >> fstype >> type;
      is_here = type.starts_with("nfs") && unescaped(point) == mount_point;
    }
    if (!is_here || first != "bytes:") continue;
    std::uint64_t skipped = 0;
    DeviceCounters moved;
    words >> skipped >> skipped >> skipped >> skipped >> moved.read_bytes >> moved.written_bytes;
    if (words) return moved;
  }
  return {};
}

std::optional<DeviceCounters> lustre_counters(const std::filesystem::path& clients, std::string_view file_system) {
  DeviceCounters sum;
  bool found = false;
  std::error_code gone;
  for (const auto& client : std::filesystem::directory_iterator(clients, gone)) {
    if (!client.path().filename().string().starts_with(std::string(file_system) + "-OST")) continue;
    const auto stats = read_text(client.path() / "stats");
    if (!stats) return {};
    add_lustre(*stats, sum);
    found = true;
  }
  if (!found) return {};
  return sum;
}

std::optional<DeviceCounters> device_counters(const std::string& directory) {
  const std::vector<std::string> disks = disks_below(directory);
  if (!disks.empty()) return parse_diskstats(read_text("/proc/diskstats").value_or(""), disks);
  const auto mount = mount_of(directory);
  if (!mount) return {};
  if (mount->file_system.starts_with("nfs")) {
    return parse_mountstats(read_text("/proc/self/mountstats").value_or(""), mount->point);
  }
  if (mount->file_system != "lustre") return {};
  // Newer ones have them in debugfs.
  const std::string name = lustre_name(mount->source);
  const auto counters = lustre_counters("/proc/fs/lustre/osc", name);
  return counters ? counters : lustre_counters("/sys/kernel/debug/lustre/osc", name);
}

}  // namespace tzmark::bench
